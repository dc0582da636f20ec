package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// A BreakerState is the state of a breaker, by smg's numbers.
type BreakerState int

// The states.
const (
	BreakerClosed BreakerState = iota
	BreakerOpen
	BreakerHalfOpen
)

// String returns smg's word for it.
func (s BreakerState) String() string {
	switch s {
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half_open"
	case BreakerClosed:
	}
	return "closed"
}

// A Breaker is one breaker at the moment of a scrape.
type Breaker struct {
	State               BreakerState
	Failures, Successes uint64       // outcomes in all
	Failing, Succeeding uint64       // outcomes in a row
	Moves               [3][3]uint64 // transitions in all, from state to state
}

// A WorkerBreaker is that of a worker, by its URL.
type WorkerBreaker struct {
	Worker string
	Breaker
}

// A PairBreaker is that of two workers together, by their URLs.
type PairBreaker struct {
	Prefill, Decode string
	Breaker
}

// Breakers are all there are.
type Breakers struct {
	Workers []WorkerBreaker
	Pairs   []PairBreaker
}

// WatchBreakers registers what is told of breakers, read with look at scrape.
// Look is called by one goroutine at a time.
func WatchBreakers(reg prometheus.Registerer, look func() Breakers) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	reg.MustRegister(&breakerCollector{
		look:       look,
		state:      desc("smg_worker_cb_state", "Circuit breaker state per worker (0=closed, 1=open, 2=half_open).", "worker"),
		moves:      desc("smg_worker_cb_transitions_total", "Circuit breaker state transitions by worker, from, to.", "worker", "from", "to"),
		outcomes:   desc("smg_worker_cb_outcomes_total", "Circuit breaker outcomes by worker and outcome (success/failure).", "worker", "outcome"),
		failing:    desc("smg_worker_cb_consecutive_failures", "Current consecutive failure count per worker.", "worker"),
		succeed:    desc("smg_worker_cb_consecutive_successes", "Current consecutive success count per worker.", "worker"),
		readmitted: desc("smg_worker_cb_health_readmissions_total", "Times that an open circuit breaker ended early because the worker was well again: its engine had been started anew.", "worker"),
		pairState:  desc("pdrouter_pair_cb_state", "Circuit breaker state per pair (0=closed, 1=open, 2=half_open), of pairs that are not closed.", "prefill", "decode"),
		pairMoves:  desc("pdrouter_pair_cb_transitions_total", "Circuit breaker state transitions by pair, from, to, of pairs that are not closed.", "prefill", "decode", "from", "to"),
	})
}

type breakerCollector struct {
	look func() Breakers

	state, moves, outcomes, failing, succeed, readmitted, pairState, pairMoves *prometheus.Desc
}

// Describe implements prometheus.Collector. It describes nothing: the series
// of workers come and go.
func (c *breakerCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *breakerCollector) Collect(out chan<- prometheus.Metric) {
	all := c.look()
	for _, w := range all.Workers {
		out <- gauge(c.state, float64(w.State), w.Worker)
		out <- gauge(c.failing, float64(w.Failing), w.Worker)
		out <- gauge(c.succeed, float64(w.Succeeding), w.Worker)
		out <- count(c.outcomes, w.Failures, w.Worker, "failure")
		out <- count(c.outcomes, w.Successes, w.Worker, "success")
		transitions(out, c.moves, w.Breaker, w.Worker)
		out <- count(c.readmitted, w.Moves[BreakerOpen][BreakerClosed], w.Worker)
	}
	for _, p := range all.Pairs {
		out <- gauge(c.pairState, float64(p.State), p.Prefill, p.Decode)
		transitions(out, c.pairMoves, p.Breaker, p.Prefill, p.Decode)
	}
}

// transitions tells of those that can be, whether they have been or not, so that
// a rate is right from the first on.
func transitions(out chan<- prometheus.Metric, desc *prometheus.Desc, b Breaker, of ...string) {
	for _, m := range [...][2]BreakerState{
		{BreakerClosed, BreakerOpen},
		{BreakerOpen, BreakerHalfOpen},
		{BreakerOpen, BreakerClosed}, // the engine was restarted
		{BreakerHalfOpen, BreakerOpen},
		{BreakerHalfOpen, BreakerClosed},
	} {
		labels := append(slices.Clip(of), m[0].String(), m[1].String())
		out <- count(desc, b.Moves[m[0]][m[1]], labels...)
	}
}
