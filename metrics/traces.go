package metrics

import "github.com/prometheus/client_golang/prometheus"

// Traces are what has become of the traces of requests that have ended, since the
// daemon's start.
type Traces struct {
	Sent    uint64
	Dropped uint64
	Failed  uint64
}

// WatchTraces registers the counter of traces, read with look at scrape.
func WatchTraces(reg prometheus.Registerer, look func() Traces) {
	reg.MustRegister(&traceCollector{look, prometheus.NewDesc("pdrouter_traces_total",
		"Traces of requests: sent to the collector, dropped because too many waited to be, failed because the collector did not take them.",
		[]string{"outcome"}, nil)})
}

type traceCollector struct {
	look func() Traces
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *traceCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *traceCollector) Collect(out chan<- prometheus.Metric) {
	now := c.look()
	for outcome, n := range map[string]uint64{"sent": now.Sent, "dropped": now.Dropped, "failed": now.Failed} {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n), outcome)
	}
}
