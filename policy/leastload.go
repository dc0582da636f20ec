package policy

import (
	"pdrouter/workers"
)

// LeastLoad takes the worker with the least expected wait: what is queued and
// under way in tokens, over its throughput, plus pressure on its KV cache, as
// smg's least_load does. A worker whose engine has more than MaxWaiting
// requests waiting is left out as long as there is another.
type LeastLoad struct{ cfg Config }

// Pick implements Picker.
func (p LeastLoad) Pick(_ *workers.Need, loads []*workers.Load, in partners) int {
	best, least, bestFull := -1, 0.0, false
	for i, l := range loads {
		if !in.have(i) {
			continue
		}
		cost, full := p.cost(l), p.full(l)
		switch {
		case best < 0, bestFull && !full:
		case full && !bestFull, cost > least, cost == least && l.Picked > loads[best].Picked:
			continue
		}
		best, least, bestFull = i, cost, full
	}
	return best
}

func (p LeastLoad) full(l *workers.Load) bool {
	return p.cfg.MaxWaiting > 0 && l.Report != nil && l.Report.Waiting >= float64(p.cfg.MaxWaiting)
}

// cost is in seconds.
func (p LeastLoad) cost(l *workers.Load) float64 {
	cost := float64(waiting(l)) * p.cfg.PromptTokens / p.cfg.Throughput / l.Weight
	if use := kvUse(l, 0); use >= 0 {
		cost += p.cfg.KVWeight * pressure(use)
	}
	return cost
}

// waiting returns the requests that one more would wait for: ours, or what the
// engine says if that is more.
func waiting(l *workers.Load) int {
	n := l.InFlight
	if r := l.Report; r != nil && r.Running+r.Waiting > float64(n) { // false if it does not tell
		n = int(r.Running + r.Waiting)
	}
	return n + 1
}
