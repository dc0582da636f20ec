package metrics

import "github.com/prometheus/client_golang/prometheus"

// An Info is what does not change while the daemon runs.
type Info struct {
	Version, Revision, Go string // of the build

	PrefillPolicy, DecodePolicy string
	Discovery                   string // where workers come from beside the configuration: "file" or "none"
	MostRequests                string // --max-concurrent-requests
}

// WatchInfo registers i, as labels of gauges that are 1.
func WatchInfo(reg prometheus.Registerer, i Info) {
	info := func(name, help string, labels prometheus.Labels) prometheus.Collector {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
		g.Set(1)
		return g
	}
	reg.MustRegister(
		info("pdrouter_build_info", "Which pdrouter this is.", prometheus.Labels{
			"version": i.Version, "revision": i.Revision, "goversion": i.Go,
		}),
		info("pdrouter_config_info", "How it is configured.", prometheus.Labels{
			"prefill_policy": i.PrefillPolicy, "decode_policy": i.DecodePolicy, "discovery": i.Discovery, "max_concurrent_requests": i.MostRequests,
		}),
	)
}
