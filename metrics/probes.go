package metrics

import "github.com/prometheus/client_golang/prometheus"

// Probes are how many were answered well, and how many were not, by role. Those
// that say nothing of the engine are neither.
type Probes struct{ Prefill, Decode ProbeCounts }

// ProbeCounts are those of one role.
type ProbeCounts struct{ Good, Bad uint64 }

// WatchProbes registers what is told of probes, read with look at scrape.
func WatchProbes(reg prometheus.Registerer, look func() Probes) {
	reg.MustRegister(&probeCollector{look, prometheus.NewDesc("smg_worker_health_checks_total", "Probes of workers by role and result; a worker that answers requests is not probed.", []string{"worker_type", "result"}, nil)})
}

type probeCollector struct {
	look func() Probes
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *probeCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *probeCollector) Collect(out chan<- prometheus.Metric) {
	p := c.look()
	out <- count(c.desc, p.Prefill.Good, "prefill", "success")
	out <- count(c.desc, p.Prefill.Bad, "prefill", "failure")
	out <- count(c.desc, p.Decode.Good, "decode", "success")
	out <- count(c.desc, p.Decode.Bad, "decode", "failure")
}
