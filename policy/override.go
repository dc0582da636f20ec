package policy

import (
	"pdrouter/workers"
)

// With Config.Override a request with a routing key or session goes, on both
// legs, where Manual remembers that key, whatever the policy; the policy has the
// others, and new keys if Config.Assignment is delegate. To cache_aware they are
// requests like any others: it counts them as work, and as blocks that the
// worker will hold.

// overrides returns a Manual that leaves to rest what has no key.
func overrides(cfg Config, d *dice, rest Picker) *Manual {
	m := newManual(cfg, d)
	m.rest = rest
	return m
}

// other returns the policy for a leg of need if that is not c's to choose, else
// nil.
func (c *CacheAware) other(role workers.Role, need *workers.Need) Picker {
	p := c.otherPrefill
	if role == workers.Decode {
		p = c.otherDecode
	}
	if m := c.keyed[role]; m != nil && need.Named {
		p = m
	}
	return p
}

// own is what c itself chooses for a leg.
type own struct {
	c    *CacheAware
	role workers.Role
}

// Pick implements Picker.
func (o own) Pick(need *workers.Need, loads []*workers.Load, in partners) int {
	if o.role == workers.Decode {
		return o.c.ownDecode(need, loads, in)
	}
	at, _ := o.c.ownPrefill(o.c.viewOf(need, need.At, 0), loads, in)
	return at
}
