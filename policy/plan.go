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
	at  int           // its place among those that wait
	key time.Duration // the shortest goes first
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
	at, oldest := c.atOnce(now, waiting)
	if at >= 0 {
		return c.grant(at, waiting[at], now, backlog, pools), time.Time{}
	}
	if !c.anyDry(now, pools) {
		return workers.NoGrant(), c.wake(now, waiting[oldest].Since.Add(c.cfg.Hold), pools)
	}
	c.order(now, waiting, pools)
	defer c.dropPlan(pools)
	for _, p := range c.plan {
		v := c.viewOf(&waiting[p.at].Need, now, backlog)
		b, o := c.planOne(v, pools)
		if o.wait <= runDry { // nothing is planned for it yet, or that would have been granted
			return c.grant(p.at, waiting[p.at], now, backlog, pools), time.Time{}
		}
		b.planned += o.work
	}
	return workers.NoGrant(), c.wake(now, waiting[oldest].Since.Add(c.cfg.Hold), pools)
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
		c.plan = append(c.plan, planned{i, min(least, longLegs*c.mean) - time.Duration(ageing*float64(now.Sub(w.Since)))})
	}
	slices.SortFunc(c.plan, func(a, b planned) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at))
	})
}

// planOne returns the worker where a request costs least behind what is planned
// for it, and what it offers.
func (c *CacheAware) planOne(v view, pools []workers.Pool) (best *book, offered offer) {
	var (
		chosen *workers.Load
		least  time.Duration
	)
	for i := range pools {
		due := c.dueShares(pools[i].Prefill, partners{})
		hinted := hint(v.need, pools[i].Prefill, partners{})
		for j, l := range pools[i].Prefill {
			b := c.book(l)
			if l.Weight < 1 && b.credit < 0 && due {
				continue
			}
			o := c.offer(b, l.Seat, v)
			if j == hinted {
				o.cost -= o.work / hintShare
			}
			if best == nil || o.better(offered, least, l.Picked < chosen.Picked) {
				best, offered, chosen = b, o, l
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
// long enough.
func (c *CacheAware) wake(now, expires time.Time, pools []workers.Pool) time.Time {
	at := expires
	for i := range pools {
		for _, l := range pools[i].Prefill {
			left := c.book(l).backlog(now, c.mean) - runDry
			if t := now.Add(left); left > 0 && t.Before(at) {
				at = t
			}
		}
	}
	return at
}
