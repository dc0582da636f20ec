package workers

import (
	"slices"
	"time"
)

// The parts of a Need's Avoid, as bits: what a pick heeds of them.
const (
	avoidPairs = 1 << iota
	avoidDecodes
	avoidPrefills
	avoidAll = avoidPairs | avoidDecodes | avoidPrefills
)

// A sieve says which workers are candidates for one request.
type sieve struct {
	now   time.Time
	busy  bool // take workers under backpressure too
	avoid []Avoid
	heed  int   // which of avoid
	need  *Need // take workers that have room for it; nil: all
}

// scratch is where candidates are gathered: made once, used for each pick,
// under the registry's lock.
type scratch struct {
	pools []Pool
	loads []*Load
	bits  []uint64

	queues []*queue
	seen   []*Waiter
}

// candidatesLocked returns what of pools is left for need at this moment, or,
// without one, whether there is room or not. What is to be avoided is left out
// as long as something else is there, pairs being the first to be taken all the
// same.
func (r *Registry) candidatesLocked(pools []Pool, need *Need, now time.Time) []Pool {
	s := sieve{now: now, need: need}
	if need != nil && len(need.Avoid) > 0 {
		s.avoid, s.heed = need.Avoid, avoidAll
	}
	for {
		if left := r.siftLocked(pools, s); len(left) > 0 || s.heed == 0 {
			return left
		}
		s.heed--
	}
}

// siftLocked returns the pools with the candidates only. It is good until the
// next call.
func (r *Registry) siftLocked(pools []Pool, s sieve) []Pool {
	m := &r.scratch
	m.pools, m.loads, m.bits = m.pools[:0], m.loads[:0], m.bits[:0]
	r.sifts++
	if len(r.pairBars) > 0 {
		r.pairBars = slices.DeleteFunc(r.pairBars, func(b pairBar) bool { return !b.until.After(s.now) })
	}
	for i := range pools {
		p := Pool{Dialect: pools[i].Dialect}
		p.Prefill = r.takeLocked(pools[i].Prefill, s)
		p.Decode = r.takeLocked(pools[i].Decode, s)
		if len(p.Prefill) > 0 && len(p.Decode) > 0 {
			r.partLocked(&p, s)
		}
		if len(p.Prefill) > 0 && len(p.Decode) > 0 {
			m.pools = append(m.pools, p)
		}
	}
	return m.pools
}

// takeLocked returns those of loads that s lets through.
func (r *Registry) takeLocked(loads []*Load, s sieve) []*Load {
	m := &r.scratch
	begin := len(m.loads)
	for _, l := range loads {
		w := l.Worker
		end := w.barred
		if s.busy {
			end = w.refused
		}
		if !end.IsZero() && end.After(s.now) || s.heed != 0 && s.avoids(w) || s.need != nil && !l.HasRoom(s.need) {
			continue
		}
		if !w.warmFrom.IsZero() {
			r.warmLocked(w, s.now)
		}
		l.sifted = r.sifts
		m.loads = append(m.loads, l)
	}
	return m.loads[begin:len(m.loads):len(m.loads)]
}

// avoids reports whether w by itself is to be left out.
func (s *sieve) avoids(w *Worker) bool {
	for _, a := range s.avoid {
		switch {
		case a.Prefill != nil && a.Decode != nil: // a pair
		case a.Prefill == w && s.heed&avoidPrefills != 0, a.Decode == w && s.heed&avoidDecodes != 0:
			return true
		}
	}
	return false
}

// partLocked marks the pairs in p that may not be, and drops the workers that
// have no partner left.
func (r *Registry) partLocked(p *Pool, s sieve) {
	for _, b := range r.pairBars {
		r.markLocked(p, b.prefill, b.decode)
	}
	if s.heed&avoidPairs != 0 {
		for _, a := range s.avoid {
			if a.Prefill != nil && a.Decode != nil {
				r.markLocked(p, a.Prefill, a.Decode)
			}
		}
	}
	if p.apart != nil {
		p.endParting()
	}
}

// markLocked parts two workers, if both are in p.
func (r *Registry) markLocked(p *Pool, prefill, decode *Worker) {
	if p.apart == nil {
		r.scratch.bits = p.beginParting(r.scratch.bits)
	}
	if holds(p.Prefill, &prefill.load) && holds(p.Decode, &decode.load) {
		p.part(&prefill.load, &decode.load)
	}
}

// holds reports whether l is one of loads, whose places have been noted.
func holds(loads []*Load, l *Load) bool {
	return l.place < len(loads) && loads[l.place] == l
}
