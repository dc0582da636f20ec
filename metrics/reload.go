package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reloads count how often the configuration was read anew.
type Reloads struct {
	ended      *prometheus.CounterVec
	at, isGood prometheus.Gauge
}

// NewReloads registers them on reg. To start is to have read it once, at now.
func NewReloads(reg prometheus.Registerer, now time.Time) *Reloads {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	r := &Reloads{
		ended:  counters("pdrouter_config_reloads_total", "Times that the configuration was read anew, by result: of one that failed nothing is in force.", "result"),
		at:     gauge("pdrouter_config_last_reload_success_timestamp_seconds", "When the configuration in force was read."),
		isGood: gauge("pdrouter_config_last_reload_successful", "Whether it was taken the last time that it was read (1), or the one before is still in force (0)."),
	}
	reg.MustRegister(r.ended, r.at, r.isGood)
	for _, result := range [...]string{"ok", "failed"} {
		r.ended.WithLabelValues(result)
	}
	r.good(now)
	return r
}

func (r *Reloads) good(now time.Time) {
	r.at.Set(float64(now.UnixMilli()) / 1000)
	r.isGood.Set(1)
}

// Ended counts one that ended at now.
func (r *Reloads) Ended(ok bool, now time.Time) {
	if !ok {
		r.ended.WithLabelValues("failed").Inc()
		r.isGood.Set(0)
		return
	}
	r.ended.WithLabelValues("ok").Inc()
	r.good(now)
}

// SetPolicies has choices counted under the names of other policies from now on.
func (m *Metrics) SetPolicies(prefill, decode string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.policies = [...]string{prefill, decode}
	for _, w := range m.works {
		w.selections.Store(m.selectionsLocked(w.model))
	}
}

// selectionsLocked returns where the choices for a model are counted.
func (m *Metrics) selectionsLocked(model string) *[2]prometheus.Counter {
	var all [2]prometheus.Counter
	for i, role := range [...]string{"prefill", "decode"} {
		all[i] = m.selections.WithLabelValues(role, connection, model, m.policies[i])
	}
	return &all
}
