package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what the gauges show. Each field is called at scrape; none may be nil.
type State struct {
	// Ages returns how long each request in flight has been so.
	Ages func() []time.Duration

	// Workers returns the workers as they are now.
	Workers func() []WorkerState

	// Crowd returns how many requests have a pair, and how many wait for one.
	Crowd func() Crowd

	// BufferedBytes returns the request bodies held, in bytes.
	BufferedBytes func() int64

	// RetryBudget returns how many retries may be made at once.
	RetryBudget func() float64
}

// WatchState registers the gauges that are read from s at scrape.
func (m *Metrics) WatchState(reg prometheus.Registerer, s State) {
	reg.MustRegister(newStateCollector(s))
	m.fleet = newFleet(s.Workers, m.models)
}

// ageBounds are the upper bounds of smg's age buckets, in seconds.
func ageBounds() [11]time.Duration {
	var b [11]time.Duration
	for i, s := range [...]int{30, 60, 180, 300, 600, 1200, 3600, 7200, 14400, 28800, 86400} {
		b[i] = time.Duration(s) * time.Second
	}
	return b
}

// ageLabels are the same bounds as smg spells them, with their ends.
func ageLabels() [13]string {
	return [...]string{"0", "30", "60", "180", "300", "600", "1200", "3600", "7200", "14400", "28800", "86400", "+Inf"}
}

type stateCollector struct {
	state State
	crowd crowdDescs

	connections, ages, buffered, budget *prometheus.Desc
}

func newStateCollector(s State) *stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &stateCollector{
		state:       s,
		crowd:       newCrowdDescs(),
		connections: desc("smg_http_connections_active", "HTTP requests in flight, streams to their end."),
		ages:        desc("smg_http_inflight_request_age_count", "HTTP requests in flight per age bucket (gt < age <= le, not cumulative).", "gt", "le"),
		buffered:    desc("pdrouter_buffered_request_bytes", "Request bodies held, in bytes."),
		budget:      desc("pdrouter_retry_budget", "Retries that may be made at once; what each request and each second adds is in docs/resilience.md."),
	}
}

// Describe implements prometheus.Collector. It describes nothing: what there is
// shows when it is collected.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	c.requests(out)
	c.crowd.collect(out, c.state.Crowd())
	out <- gauge(c.buffered, float64(c.state.BufferedBytes()))
	out <- gauge(c.budget, c.state.RetryBudget())
}

func (c *stateCollector) requests(out chan<- prometheus.Metric) {
	ages := c.state.Ages()
	out <- gauge(c.connections, float64(len(ages)))
	bounds, labels := ageBounds(), ageLabels()
	var counts [12]int
	for _, age := range ages {
		i := 0
		for i < len(bounds) && age > bounds[i] {
			i++
		}
		counts[i]++
	}
	for i, n := range counts {
		out <- gauge(c.ages, float64(n), labels[i], labels[i+1])
	}
}
