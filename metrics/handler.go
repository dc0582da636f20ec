package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// mostScrapes is how many pages are made at a time: a few Prometheus
	// servers and a person. More are told to come again (503).
	mostScrapes = 4

	// scrapeTime is the most that a page may take. A scrape that Prometheus
	// gives up by then (its default is 10 s) need not be finished.
	scrapeTime = 10 * time.Second
)

// Faults takes what is wrong with a page, as log.Logger does. It may be nil.
type Faults interface{ Println(v ...any) }

// Handler serves what reg and m gather, at /metrics and /metrics/: as text, as
// OpenMetrics, which has the exemplars, or as protobuf, which alone has native
// histograms; each compressed for those who take that. What one collector
// cannot tell is missing on the page, counted in
// promhttp_metric_handler_errors_total and told to faults; the rest is there.
// Scrapes that come at the same time share what is gathered.
func (m *Metrics) Handler(reg *prometheus.Registry, faults Faults) http.Handler {
	mux := http.NewServeMux()
	page := promhttp.InstrumentMetricHandler(reg, promhttp.HandlerFor(m.Gatherer(reg), promhttp.HandlerOpts{
		Registry:            reg,
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            faults,
		CoalesceGather:      true,
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: mostScrapes,
		Timeout:             scrapeTime,
	}))
	mux.Handle("/metrics", page)
	mux.Handle("/metrics/", page)
	return mux
}

// Gatherer returns all that is told: what is registered with reg, and of the
// workers. It is called after WatchState.
func (m *Metrics) Gatherer(reg prometheus.Gatherer) prometheus.Gatherer {
	return page{reg, m.fleet}
}
