package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Listener is what one kind of listener, by its name, is like at a scrape.
type Listener struct {
	Name       string
	Open, Most int // connections
	Refused    uint64
	Expiry     time.Time // of its certificate; zero: it shows none
}

// WatchListeners registers what is told of them, read with look at scrape.
func WatchListeners(reg prometheus.Registerer, look func() []Listener) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"listener"}, nil)
	}
	reg.MustRegister(&listenerCollector{
		look:    look,
		open:    desc("pdrouter_connections", "Connections that are open, by listener."),
		most:    desc("pdrouter_connections_limit", "How many may be."),
		refused: desc("pdrouter_connections_refused_total", "Connections that were closed at once because so many were open."),
		expiry:  desc("pdrouter_certificate_expiry_timestamp_seconds", "When the certificate ends that a listener shows."),
	})
}

type listenerCollector struct {
	look func() []Listener

	open, most, refused, expiry *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *listenerCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.open, c.most, c.refused, c.expiry} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *listenerCollector) Collect(out chan<- prometheus.Metric) {
	for _, l := range c.look() {
		out <- gauge(c.open, float64(l.Open), l.Name)
		out <- gauge(c.most, float64(l.Most), l.Name)
		out <- count(c.refused, l.Refused, l.Name)
		if !l.Expiry.IsZero() {
			out <- gauge(c.expiry, float64(l.Expiry.Unix()), l.Name)
		}
	}
}
