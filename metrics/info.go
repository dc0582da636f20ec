package metrics

import "github.com/prometheus/client_golang/prometheus"

// An Info is which daemon it is, and how it is configured.
type Info struct {
	Version, Revision, Go string // of the build

	PrefillPolicy, DecodePolicy string
	Discovery                   string // where workers come from beside the configuration: "file" or "none"
	MostRequests                string // --max-concurrent-requests
}

// WatchInfo registers what look returns at a scrape, as labels of gauges that
// are 1: a reload changes it.
func WatchInfo(reg prometheus.Registerer, look func() Info) {
	reg.MustRegister(&infoCollector{
		look:   look,
		build:  prometheus.NewDesc("pdrouter_build_info", "Which pdrouter this is.", []string{"version", "revision", "goversion"}, nil),
		config: prometheus.NewDesc("pdrouter_config_info", "How it is configured.", []string{"prefill_policy", "decode_policy", "discovery", "max_concurrent_requests"}, nil),
	})
}

type infoCollector struct {
	look          func() Info
	build, config *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *infoCollector) Describe(out chan<- *prometheus.Desc) { out <- c.build; out <- c.config }

// Collect implements prometheus.Collector.
func (c *infoCollector) Collect(out chan<- prometheus.Metric) {
	i := c.look()
	out <- gauge(c.build, 1, i.Version, i.Revision, i.Go)
	out <- gauge(c.config, 1, i.PrefillPolicy, i.DecodePolicy, i.Discovery, i.MostRequests)
}
