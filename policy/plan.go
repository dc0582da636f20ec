package policy

import (
	"cmp"
	"slices"
	"time"

	"pdrouter/workers"
)

const (
	// runDry is how long before it has nothing to do a worker gets its next
	// leg. It is more than a leg takes to reach it and to be tokenized, and
	// more than an engine takes for one step: engines compute short prompts
	// many at a time, and one that never has more than it computes just now
	// computes few. It is little against a long prefill: on the conversation
	// trace 50 ms gives a mean TTFT of 0.949 s, and 200 ms one of 0.952 s.
	runDry = 200 * time.Millisecond

	// ageing is how much of the time that a request has waited is taken off
	// its work when the shortest is looked for.
	ageing = 0.3

	// longLegs is from how many times the mean work on requests count as
	// equally long. Which of these goes first matters little to the others, and
	// much to the longest TTFT.
	longLegs = 2

	// maxPlan bounds a plan, in requests times workers. Those that wait
	// behind are not looked at yet.
	maxPlan = 4096
)

// planned is a request in a plan.
type planned struct {
	at   int // its place among those that wait
	rank int
	key  time.Duration // among equals the shortest goes first
}

// Next implements workers.Planner. It makes a plan of all that wait, shortest
// expected prefill first: each is given to the worker where it costs least,
// behind what that worker has been sent and what the plan gave it already. The
// first for a worker that is about to run dry is granted, the others wait for
// the next plan, and may go elsewhere then. A request that has waited for as
// long as Config.Hold is granted at once.
func (c *CacheAware) Next(now time.Time, waiting []*workers.Waiter, pools []workers.Pool) (workers.Grant, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	backlog := c.backlog(now, pools)
	if at := c.atOnce(now, waiting, pools); at >= 0 {
		return c.grant(at, waiting[at], now, backlog, pools), time.Time{}
	}
	if !c.anyDry(now, pools) {
		return workers.NoGrant(), c.wake(now, waiting, pools)
	}
	c.order(now, waiting, pools)
	defer c.dropPlan(pools)
	for _, p := range c.plan {
		need := &waiting[p.at].Need
		if !anyRoom(pools, need) {
			continue
		}
		b, o := c.planOne(c.viewOf(need, now, backlog), pools)
		if b == nil {
			continue // one that had room is being warmed, and has had its share
		}
		if o.wait <= runDry { // nothing is planned for it yet, or that would have been granted
			return c.grant(p.at, waiting[p.at], now, backlog, pools), time.Time{}
		}
		b.planned += o.work
	}
	return workers.NoGrant(), c.wake(now, waiting, pools)
}

// atOnce returns the place of one of those that wait which is not to be kept: it
// has waited for long enough, there is nothing learnt yet to keep it by, or its
// worker is chosen otherwise. Below 0: there is none that has room.
func (c *CacheAware) atOnce(now time.Time, waiting []*workers.Waiter, pools []workers.Pool) (at int) {
	at = -1
	for i, w := range waiting {
		over := c.speed.n < speedLearnt || !w.Since.Add(c.cfg.Hold).After(now) || c.other(workers.Prefill, &w.Need) != nil
		if over && (at < 0 || goesBefore(w, waiting[at])) && anyRoom(pools, &w.Need) {
			at = i
		}
	}
	return at
}

func goesBefore(a, b *workers.Waiter) bool {
	return a.Rank < b.Rank || a.Rank == b.Rank && a.Since.Before(b.Since)
}

// anyRoom reports whether a pair has room for need.
func anyRoom(pools []workers.Pool, need *workers.Need) bool {
	for i := range pools {
		p := &pools[i]
		if !slices.ContainsFunc(p.Decode, func(l *workers.Load) bool { return l.HasRoom(need) }) {
			continue // which is soon said, however many pairs there are
		}
		in := ofAny(p, workers.Prefill, need)
		for j := range p.Prefill {
			if in.have(j) {
				return true
			}
		}
	}
	return false
}

// anyDry reports whether any worker is about to run dry. Else no plan grants
// anything.
func (c *CacheAware) anyDry(now time.Time, pools []workers.Pool) bool {
	for i := range pools {
		for _, l := range pools[i].Prefill {
			if c.book(l).backlog(now, c.mean) <= runDry {
				return true
			}
		}
	}
	return false
}

// dropPlan forgets what was planned: choices that are made outside of a plan
// know nothing of it.
func (c *CacheAware) dropPlan(pools []workers.Pool) {
	for i := range pools {
		for _, l := range pools[i].Prefill {
			c.book(l).planned = 0
		}
	}
}

// order fills the plan with those that wait, in the order in which they are
// looked at.
func (c *CacheAware) order(now time.Time, waiting []*workers.Waiter, pools []workers.Pool) {
	n := 0
	for i := range pools {
		n += len(pools[i].Prefill)
	}
	c.plan = c.plan[:0]
	for i, w := range waiting[:min(len(waiting), max(maxPlan/n, 1))] {
		least := time.Duration(-1)
		for j := range pools {
			for _, l := range pools[j].Prefill {
				b := c.book(l)
				if work := c.work(b, &w.Need.Prompt, b.matched(l.Seat, &w.Need)); least < 0 || work < least {
					least = work
				}
			}
		}
		c.plan = append(c.plan, planned{i, w.Rank, min(least, longLegs*c.mean) - time.Duration(ageing*float64(now.Sub(w.Since)))})
	}
	slices.SortFunc(c.plan, func(a, b planned) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at))
	})
}

// planOne returns the worker with room where a request costs least behind what
// is planned for it, and what it offers; nil: there is none now.
func (c *CacheAware) planOne(v view, pools []workers.Pool) (best *book, offered offer) {
	var (
		chosen *workers.Load
		atHint bool // whether a hint points to it
		least  time.Duration
	)
	for i := range pools {
		due := c.dueShares(pools[i].Prefill, ofAny(&pools[i], workers.Prefill, v.need))
		hinted := hint(v.need, pools[i].Prefill, partners{})
		for j, l := range pools[i].Prefill {
			b := c.book(l)
			if l.Weight < 1 && b.credit < 0 && due || !l.HasRoom(v.need) {
				continue
			}
			o := c.offer(b, l.Seat, v)
			if j == hinted {
				o.cost -= o.work / hintShare
			}
			if best == nil || o.better(offered, least, goesFirst(l, chosen, j == hinted, atHint)) {
				best, offered, chosen, atHint = b, o, l, j == hinted
			}
			if best == b || o.cost < least {
				least = o.cost
			}
		}
	}
	return best, offered
}

// grant gives a request that waits a pair.
func (c *CacheAware) grant(at int, w *workers.Waiter, now time.Time, backlog time.Duration, pools []workers.Pool) workers.Grant {
	c.see(&w.Need.Prompt)
	return workers.Grant{Waiter: at, Choice: c.chooseLocked(c.viewOf(&w.Need, now, backlog), pools)}
}

// wake returns when a worker is about to run dry, or a request has waited for
// long enough; zero if neither will be.
func (c *CacheAware) wake(now time.Time, waiting []*workers.Waiter, pools []workers.Pool) (at time.Time) {
	for _, w := range waiting {
		if t := w.Since.Add(c.cfg.Hold); t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for i := range pools {
		for _, l := range pools[i].Prefill {
			left := c.book(l).backlog(now, c.mean) - runDry
			if t := now.Add(left); left > 0 && (at.IsZero() || t.Before(at)) {
				at = t
			}
		}
	}
	return at
}
