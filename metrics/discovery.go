package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A discovery counts what came of the file of workers. Without such a file it
// has no series.
type discovery struct {
	added, removed *prometheus.CounterVec
	known          *prometheus.GaugeVec
	took           *prometheus.HistogramVec
}

// fromFile is where workers come from that are neither configured nor added.
const fromFile = "file"

func newDiscovery(reg prometheus.Registerer, cfg Config) discovery {
	d := discovery{
		added:   counters("smg_discovery_registrations_total", "Workers that discovery has added, or could not add because the set of workers would have had a fault.", "source", "result"),
		removed: counters("smg_discovery_deregistrations_total", "Workers that discovery has removed.", "source", "reason"),
		known: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "smg_discovery_workers_discovered", Help: "Workers that come from discovery.",
		}, []string{"source"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "smg_discovery_sync_duration_seconds", Help: "Time that changes of the workers by discovery took.", Buckets: cfg.DurationBuckets,
		}, []string{"source"}),
	}
	reg.MustRegister(d.added, d.removed, d.known, d.took)
	return d
}

// Discovered counts a change of the workers by discovery: how many were added
// and removed, how many come from it now, and how long it took.
func (m *Metrics) Discovered(added, removed, known int, took time.Duration) {
	m.discovery.added.WithLabelValues(fromFile, "success").Add(float64(added))
	m.discovery.added.WithLabelValues(fromFile, "failed")
	m.discovery.removed.WithLabelValues(fromFile, "reconciled").Add(float64(removed))
	m.discovery.known.WithLabelValues(fromFile).Set(float64(known))
	m.discovery.took.WithLabelValues(fromFile).Observe(took.Seconds())
}

// NotDiscovered counts workers that discovery could not add.
func (m *Metrics) NotDiscovered(n int) {
	m.discovery.added.WithLabelValues(fromFile, "failed").Add(float64(n))
}
