package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what the gauges show. Each field is called at scrape, by one
// goroutine at a time; none may be nil.
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

// A WorkerState is one worker at the moment of a scrape.
type WorkerState struct {
	URL, Role string
	Models    []string
	Ready     bool
	InFlight  int

	// CacheHits and CacheQueries are the engine's own totals of prompt tokens
	// that it found in its prefix cache, and looked up in it. NaN: it does not
	// tell.
	CacheHits, CacheQueries float64
}

// WatchState registers the gauges that are read from s at scrape.
func WatchState(reg prometheus.Registerer, s State) {
	reg.MustRegister(newStateCollector(s))
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

	connections, ages, buffered, budget, active, health, pool, hits, queries *prometheus.Desc
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
		active:      desc("smg_worker_requests_active", "Requests under way per worker.", "worker"),
		health:      desc("smg_worker_health", "Whether a worker may take requests (1) or not (0).", "worker"),
		pool:        desc("smg_worker_pool_size", "Workers by role and model.", "worker_type", "connection_mode", "model"),
		hits:        desc("pdrouter_worker_prefix_cache_hits_total", "Prompt tokens that the engine found in its prefix cache, as it counts them itself; it starts at 0 with the engine.", "worker", "role"),
		queries:     desc("pdrouter_worker_prefix_cache_queries_total", "Prompt tokens that the engine looked up in its prefix cache, likewise.", "worker", "role"),
	}
}

// Describe implements prometheus.Collector. It describes nothing: the series
// of workers come and go.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	c.requests(out)
	c.workers(out)
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

func (c *stateCollector) workers(out chan<- prometheus.Metric) {
	type pool struct{ role, model string }
	pools := map[pool]int{}
	for _, w := range c.state.Workers() {
		out <- gauge(c.active, float64(w.InFlight), w.URL)
		ready := 0.0
		if w.Ready {
			ready = 1
		}
		out <- gauge(c.health, ready, w.URL)
		total(out, c.hits, w.CacheHits, w.URL, w.Role)
		total(out, c.queries, w.CacheQueries, w.URL, w.Role)
		for _, m := range w.Models {
			pools[pool{w.Role, m}]++
		}
	}
	for p, n := range pools {
		out <- gauge(c.pool, float64(n), p.role, connection, p.model)
	}
}

func gauge(desc *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
}

// total tells of a total that somebody else counts, if it is known (I8).
func total(out chan<- prometheus.Metric, desc *prometheus.Desc, v float64, labels ...string) {
	if !math.IsNaN(v) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, v, labels...)
	}
}
