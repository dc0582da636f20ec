package policy

import "pdrouter/workers"

const (
	// scarceUse is how full the KV caches of decode workers are on average
	// when the decode worker is chosen before the prefill worker.
	scarceUse = 0.8

	// pullWeight is how much more load a decode worker may have if it holds
	// the whole prompt, so that nothing need be pulled.
	pullWeight = 0.25

	// equalLoad is how far apart costs of decode workers may be and count as
	// equal: a report that is a second old is no better than that.
	equalLoad = 0.02

	// kvWeight is the weight of KV use against load, as in least_load.
	kvWeight = 0.15
)

// scarce returns the decode worker that is chosen first, because KV space for
// decode is what is short; else -1. It is the one with the most space.
func (c *CacheAware) scarce(need, room *workers.Need, pools []workers.Pool) (pool, decode int) {
	if c.other(workers.Prefill, need) != nil || c.other(workers.Decode, need) != nil {
		return -1, 0
	}
	sum, n := 0.0, 0
	pool, least := -1, 0.0
	for i := range pools {
		in := ofAny(&pools[i], workers.Decode, room)
		for j, l := range pools[i].Decode {
			use := kvUse(l, 0)
			if use < 0 {
				return -1, 0 // it does not tell: there is nothing to compare
			}
			sum, n = sum+use, n+1
			if !in.have(j) {
				continue
			}
			if use += float64(l.InFlight) * 1e-6; pool < 0 || use < least {
				pool, decode, least = i, j, use
			}
		}
	}
	if sum < scarceUse*float64(n) {
		return -1, 0
	}
	if need.Explain != nil {
		explainScarce(need.Explain, room, pools, pools[pool].Decode[decode])
	}
	return pool, decode
}

// explainScarce explains a choice of scarce.
func explainScarce(x *workers.Explanation, room *workers.Need, pools []workers.Pool, chosen *workers.Load) {
	begin(x, workers.Decode, mostSpace, inShares)
	for i := range pools {
		in := ofAny(&pools[i], workers.Decode, room)
		for j, l := range pools[i].Decode {
			c := plain(l)
			if c.Cost = kvUse(l, 0); !in.have(j) {
				c.LeftOut = workers.LeftNoRoom
			}
			x.Add(&c)
		}
	}
	c := plain(chosen)
	c.Cost = kvUse(chosen, 0)
	x.Keep(&c)
}

// bestDecode returns the place of the decode worker with the least cost: load
// beside the average, pressure on the KV cache, less what need not be pulled.
func (c *CacheAware) bestDecode(need *workers.Need, pool *workers.Pool, in partners) int {
	if p := c.other(workers.Decode, need); p != nil {
		return pick(p, workers.Decode, need, pool.Decode, in)
	}
	return c.ownDecode(need, pool.Decode, in)
}

func (c *CacheAware) ownDecode(need *workers.Need, loads []*workers.Load, in partners) int {
	inFlight, weight := total(loads, in)
	average := float64(inFlight+1) / weight
	tokens := float64(need.Prompt.Bytes) / c.ratio.value()
	best, least := -1, 0.0
	x := need.Explain
	begin(x, workers.Decode, evenLoad, inLoads)
	var chosen workers.Candidate
	for i, l := range loads {
		if !in.have(i) {
			leaveOut(x, l, workers.LeftNoRoom)
			continue
		}
		blocks := 0
		cost := float64(l.InFlight+1) / l.Weight / average
		if use := kvUse(l, tokens); use >= 0 {
			cost += kvWeight * pressure(use)
		}
		if n := len(need.Prompt.Chain); n > 0 {
			blocks = c.book(l).matched(l.Seat, need)
			cost -= pullWeight * float64(max(blocks, c.shared.blocks(need.Prompt.Chain))) / float64(n)
		}
		seen := workers.Candidate{Worker: l.Worker, InFlight: l.InFlight, Blocks: blocks, Cost: cost}
		if x != nil {
			x.Add(&seen)
		}
		if best < 0 || cost < least-equalLoad || cost <= least+equalLoad && l.Picked < loads[best].Picked {
			best, chosen = i, seen
		}
		if best == i || cost < least {
			least = cost
		}
	}
	if x != nil && best >= 0 {
		x.Keep(&chosen)
	}
	return best
}

// kvUse returns the share of l's KV cache that is in use once so many tokens
// are added; below 0 if it is not known.
func kvUse(l *workers.Load, tokens float64) float64 {
	if l.Space != nil {
		if used, capacity, ok := l.Space.KV(); ok {
			return (used + tokens) / capacity
		}
	}
	r := l.Report
	if r == nil || !(r.KVCapacity > 0) || !(r.KVUsed >= 0) {
		return -1
	}
	return (r.KVUsed + tokens) / r.KVCapacity
}

// pressure grows without bound as a KV cache fills.
func pressure(use float64) float64 {
	use = min(use, 0.999)
	return use / (1 - use)
}
