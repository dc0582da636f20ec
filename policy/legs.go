package policy

import "pdrouter/workers"

// A Picker chooses a worker of one role. It is called under the registry's
// lock, as a Chooser is.
type Picker interface {
	// Pick returns the place of one of loads which is in. There is at least
	// one.
	Pick(need *workers.Need, loads []*workers.Load, in partners) int
}

// Legs is a policy of two, one for each leg. The prefill worker comes first,
// then a decode worker that fits it.
type Legs struct {
	Prefill, Decode Picker

	need workers.Need // the one that is being chosen for; here it costs no allocation
}

// Choose implements workers.Chooser.
func (s *Legs) Choose(need workers.Need, pools []workers.Pool) workers.Choice {
	s.need = need
	var c workers.Choice
	if len(pools) > 1 {
		c.Pool = emptiest(pools)
	}
	pool := &pools[c.Pool]
	c.Prefill = s.Prefill.Pick(&s.need, pool.Prefill, partners{})
	c.Decode = s.Decode.Pick(&s.need, pool.Decode, ofPrefill(pool, c.Prefill))
	return c
}

// partners are the workers of a pool that fit one of the other role. The zero
// value is all workers of whatever role.
type partners struct {
	pool *workers.Pool
	role workers.Role // of the one
	one  int
}

func ofPrefill(pool *workers.Pool, i int) partners { return partners{pool, workers.Prefill, i} }
func ofDecode(pool *workers.Pool, i int) partners  { return partners{pool, workers.Decode, i} }

func (p partners) have(i int) bool {
	switch {
	case p.pool == nil:
		return true
	case p.role == workers.Prefill:
		return p.pool.Fits(p.one, i)
	default:
		return p.pool.Fits(i, p.one)
	}
}

// count returns how many of n workers are in.
func (p partners) count(n int) int {
	if p.pool == nil {
		return n
	}
	in := 0
	for i := range n {
		if p.have(i) {
			in++
		}
	}
	return in
}

// nth returns the place of the one with that number among those which are in.
func (p partners) nth(number int) int {
	for i := 0; ; i++ {
		if p.have(i) {
			if number == 0 {
				return i
			}
			number--
		}
	}
}

// emptiest returns the pool with the least load per decode worker.
func emptiest(pools []workers.Pool) int {
	best, least := 0, -1.0
	for i := range pools {
		inFlight, weight := total(pools[i].Decode, partners{})
		if l := float64(inFlight) / weight; least < 0 || l < least {
			best, least = i, l
		}
	}
	return best
}

// lightest returns the place of the worker with the least load among those
// which are in; among equals, of the one leased least recently.
func lightest(loads []*workers.Load, in partners) int {
	best := -1
	for i, l := range loads {
		if in.have(i) && (best < 0 || lighter(l, loads[best])) {
			best = i
		}
	}
	return best
}
