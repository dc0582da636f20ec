package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// A WorkerSpace is how full a worker's KV cache is at the moment of a scrape, in
// tokens. What is not known is NaN, never 0 (I8).
type WorkerSpace struct {
	Worker, Role string

	Capacity float64
	Used     float64
	Reserved float64 // of decode workers: the most that our own requests are expected to need
	Drift    float64 // of decode workers: what the last report had beyond what we knew of, as a share of Capacity

	SecondsFull float64 // until it is full, if it goes on like this; +Inf: it does not fill
	ReportAge   float64 // seconds since the engine's last report
}

// UnknownSpace returns the WorkerSpace of a worker of which nothing is known.
func UnknownSpace(worker, role string) WorkerSpace {
	nan := math.NaN()
	return WorkerSpace{worker, role, nan, nan, nan, nan, nan, nan}
}

// WatchKVSpace registers the gauges of KV caches, read with look at scrape. Look
// is called by one goroutine at a time.
func WatchKVSpace(reg prometheus.Registerer, look func() []WorkerSpace) {
	c := &spaceCollector{look: look}
	for _, g := range [...]struct {
		name, help string
		value      func(w *WorkerSpace) float64
	}{
		{"capacity_tokens", "Tokens that a worker's KV cache holds, as its engine says.", func(w *WorkerSpace) float64 { return w.Capacity }},
		{"used_tokens", "Tokens of it in use now: what the engine said last, and what it was sent and has ended since.", func(w *WorkerSpace) float64 { return w.Used }},
		{"usage_ratio", "The same as a share of the capacity.", func(w *WorkerSpace) float64 { return w.Used / w.Capacity }},
		{"reserved_tokens", "Tokens that the requests which the router has there are expected to need at the most.", func(w *WorkerSpace) float64 { return w.Reserved }},
		{"seconds_to_full", "Seconds until it is full if it goes on like this; +Inf: it does not fill.", func(w *WorkerSpace) float64 { return w.SecondsFull }},
		{"report_age_seconds", "Age of the engine's last report.", func(w *WorkerSpace) float64 { return w.ReportAge }},
		{"ledger_drift_ratio", "What the last report had beyond what the router knew of, as a share of the capacity: requests of others, and wrong estimates.", func(w *WorkerSpace) float64 { return w.Drift }},
	} {
		c.gauges = append(c.gauges, spaceGauge{prometheus.NewDesc("pdrouter_worker_kv_"+g.name, g.help, []string{"worker", "role"}, nil), g.value})
	}
	reg.MustRegister(c)
}

type spaceCollector struct {
	look   func() []WorkerSpace
	gauges []spaceGauge
}

type spaceGauge struct {
	desc  *prometheus.Desc
	value func(w *WorkerSpace) float64
}

// Describe implements prometheus.Collector. It describes nothing: the series
// of workers come and go.
func (c *spaceCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *spaceCollector) Collect(out chan<- prometheus.Metric) {
	for _, w := range c.look() {
		for _, g := range c.gauges {
			out <- gauge(g.desc, g.value(&w), w.Worker, w.Role)
		}
	}
}
