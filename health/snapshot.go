package health

import (
	"slices"
	"strings"

	"github.com/sony/gobreaker/v2"

	"pdrouter/metrics"
	"pdrouter/workers"
)

// Probes returns how workers' probes have been answered, as metrics show it.
func (m *Monitor) Probes() metrics.Probes {
	of := func(role workers.Role) metrics.ProbeCounts {
		p := &m.probes[role]
		return metrics.ProbeCounts{Good: p.good.Load(), Bad: p.bad.Load()}
	}
	return metrics.Probes{Prefill: of(workers.Prefill), Decode: of(workers.Decode)}
}

// Breakers returns the breakers as metrics show them: of every worker, and of
// the pairs that are not closed, of which there could be thousands, sorted. A breaker whose open time is
// over stays open until a request tries it.
func (j *Judge) Breakers() metrics.Breakers {
	var all metrics.Breakers
	for _, s := range j.registry.Statuses() {
		d := j.ward(s.Worker)
		all.Workers = append(all.Workers, metrics.WorkerBreaker{Worker: s.Worker.URL, Breaker: d.breaker.show()})
		for _, p := range d.allPairs() {
			if b := p.breaker.show(); b.State != metrics.BreakerClosed {
				all.Pairs = append(all.Pairs, metrics.PairBreaker{Prefill: p.prefill.URL, Decode: p.decode.URL, Breaker: b})
			}
		}
	}
	slices.SortFunc(all.Pairs, func(a, b metrics.PairBreaker) int {
		return strings.Compare(a.Prefill+" "+a.Decode, b.Prefill+" "+b.Decode)
	})
	return all
}

func (d *ward) allPairs() []*pair {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*pair, 0, len(d.pairs))
	for _, p := range d.pairs {
		all = append(all, p)
	}
	return all
}

// show returns the breaker as metrics show it.
func (b *breaker) show() metrics.Breaker {
	state, t := b.look()
	shown := metrics.Breaker{
		State:    shownState(state),
		Failures: t.failures, Successes: t.successes,
		Failing: t.failing, Succeeding: t.succeeding,
	}
	for from := range t.moves {
		for to, n := range t.moves[from] {
			shown.Moves[shownState(gobreaker.State(from))][shownState(gobreaker.State(to))] = n
		}
	}
	return shown
}

func shownState(s gobreaker.State) metrics.BreakerState {
	switch s {
	case gobreaker.StateOpen:
		return metrics.BreakerOpen
	case gobreaker.StateHalfOpen:
		return metrics.BreakerHalfOpen
	case gobreaker.StateClosed:
	}
	return metrics.BreakerClosed
}
