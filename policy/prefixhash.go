package policy

import (
	"cmp"
	"math"

	"pdrouter/workers"

	"github.com/cespare/xxhash/v2"
)

// loadFactor is how far above the average a worker's load may be for the sake
// of affinity; smg's --prefix-hash-load-factor.
const loadFactor = 1.25

// PrefixHash sends prompts that begin alike to the same workers, unless these
// carry more than loadFactor times the average load: then to the next one in
// that prompt's order (rendezvous hashing with bounded loads), so that a
// worker that comes or goes moves only its own share. A prompt without a key
// goes to the least loaded worker, among equals to the one leased least
// recently. The prefill worker comes first, then a decode worker that fits it.
//
// Both the share of prompts and the bound follow a worker's weight, so a worker
// that is being warmed gets more and more of those prompts that will be its own.
//
// The zero value is ready to use.
type PrefixHash struct {
	factor float64 // 0: loadFactor
	below  int     // load up to which the bound does not hold

	branches *Branches
}

// Choose implements workers.Chooser: both legs by the same key.
func (h PrefixHash) Choose(need workers.Need, pools []workers.Pool) workers.Choice {
	var c workers.Choice
	if len(pools) > 1 {
		c.Pool = emptiest(pools)
	}
	pool := &pools[c.Pool]
	c.Prefill = h.Pick(&need, pool.Prefill, partners{})
	c.Decode = h.Pick(&need, pool.Decode, ofPrefill(pool, c.Prefill, nil))
	return c
}

// Pick implements Picker.
func (h PrefixHash) Pick(need *workers.Need, loads []*workers.Load, in partners) int {
	at := bounded{h.factor, h.below}.rendezvous(need.Key, loads, in)
	if h.branches != nil {
		h.branches.count(h.branch(need.Key, loads, in, at))
	}
	return at
}

// branch returns why the worker at that place was picked.
func (h PrefixHash) branch(key uint64, loads []*workers.Load, in partners, at int) Branch {
	if key == 0 {
		return WithoutPrompt
	}
	for i, l := range loads {
		if i != at && in.have(i) && score(key, l) > score(key, loads[at]) {
			return LoadWalk
		}
	}
	return RingOwner
}

// bounded is rendezvous hashing with bounded loads: up to factor times the
// average, 0 being loadFactor, and in any case up to below.
type bounded struct {
	factor float64
	below  int
}

// rendezvous returns the place of the worker for key among those which are in.
// The bound leaves at least one worker: the least loaded is never above the
// average.
func (h bounded) rendezvous(key uint64, loads []*workers.Load, in partners) int {
	if key == 0 {
		return lightest(loads, in)
	}
	factor := cmp.Or(h.factor, loadFactor)
	inFlight, weight := total(loads, in)
	average := float64(inFlight+1) / weight
	best, bestScore := -1, 0.0
	for i, l := range loads {
		if !in.have(i) {
			continue
		}
		bound := max(factor*average*l.Weight, float64(h.below))
		if float64(l.InFlight) >= bound {
			continue
		}
		if s := score(key, l); best < 0 || s > bestScore {
			best, bestScore = i, s
		}
	}
	return best
}

// lighter reports whether a would have less to do than b with one request more.
func lighter(a, b *workers.Load) bool {
	withA, withB := float64(a.InFlight+1)/a.Weight, float64(b.InFlight+1)/b.Weight
	if withA != withB {
		return withA < withB
	}
	return a.Picked < b.Picked
}

func total(loads []*workers.Load, in partners) (inFlight int, weight float64) {
	for i, l := range loads {
		if in.have(i) {
			inFlight += l.InFlight
			weight += l.Weight
		}
	}
	return inFlight, weight
}

// score is how well l suits key: a number from 0 to 1 that looks random, is the
// same in every process, and changes with either. The finaliser is
// splitmix64's. The root gives every worker a share of the keys that is in
// proportion to its weight, and moves keys only to a worker whose weight grows.
func score(key uint64, l *workers.Load) float64 {
	x := scatter(key ^ xxhash.Sum64String(l.Worker.URL))
	u := float64(x>>11) / (1 << 53)
	if l.Weight == 1 {
		return u
	}
	return math.Pow(u, 1/l.Weight)
}
