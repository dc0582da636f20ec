package policy

import "pdrouter/workers"

// A worker that is being warmed gets its weight's share of requests and no
// more: it is a candidate while it has had less than that. As such it is judged
// like any other, and being idle it is not judged badly.

// maxCredit bounds how much a worker can be behind or ahead of its share.
const maxCredit = 2

// dueShares reports whether there is a worker that may be chosen whatever was
// chosen before: one that is warm, or has had less than its share.
func (c *CacheAware) dueShares(loads []*workers.Load, in partners) bool {
	for i, l := range loads {
		if in.have(i) && (l.Weight >= 1 || c.book(l).credit >= 0) {
			return true
		}
	}
	return false
}

// share counts that one of loads was chosen.
func (c *CacheAware) share(loads []*workers.Load, chosen *workers.Load) {
	total := 0.0
	for _, l := range loads {
		total += l.Weight
	}
	for _, l := range loads {
		if l.Weight < 1 {
			b := c.book(l)
			b.credit = min(b.credit+l.Weight/total, maxCredit)
		}
	}
	if chosen.Weight < 1 {
		b := c.book(chosen)
		b.credit = max(b.credit-1, -maxCredit)
	}
}
