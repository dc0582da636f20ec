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
	c.Prefill = pick(s.Prefill, workers.Prefill, &s.need, pool.Prefill, partners{})
	c.Decode = pick(s.Decode, workers.Decode, &s.need, pool.Decode, ofPrefill(pool, c.Prefill, nil))
	return c
}

// partners are the workers of a pool that may be one leg's: those that fit one
// of the other role, or any that has room. The zero value is all workers.
type partners struct {
	pool *workers.Pool
	need *workers.Need // what they are to have room for; nil: that is known
	role workers.Role  // of those that are asked for
	one  int           // place of the one of the other role; below 0: any that has room
}

func ofPrefill(pool *workers.Pool, i int, need *workers.Need) partners {
	return partners{pool, need, workers.Decode, i}
}

func ofDecode(pool *workers.Pool, i int, need *workers.Need) partners {
	return partners{pool, need, workers.Prefill, i}
}

func ofAny(pool *workers.Pool, role workers.Role, need *workers.Need) partners {
	return partners{pool, need, role, -1}
}

func (p partners) have(i int) bool {
	switch {
	case p.pool == nil:
		return true
	case p.need != nil && !side(p.pool, p.role)[i].HasRoom(p.need):
		return false
	case p.one >= 0:
		return p.fits(i, p.one)
	case p.need == nil:
		return true // every worker of a pool fits another
	}
	for j, l := range side(p.pool, 1-p.role) {
		if l.HasRoom(p.need) && p.fits(i, j) {
			return true
		}
	}
	return false
}

// fits reports whether worker i of those that are asked for fits j.
func (p partners) fits(i, j int) bool {
	if p.role == workers.Prefill {
		return p.pool.Fits(i, j)
	}
	return p.pool.Fits(j, i)
}

func side(pool *workers.Pool, role workers.Role) []*workers.Load {
	if role == workers.Prefill {
		return pool.Prefill
	}
	return pool.Decode
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
