package policy

import (
	"slices"

	"pdrouter/workers"
)

// Renew returns the policy that New would return, with what old knows as far as
// that is of use to it. If both are [CacheAware] on a leg it is old itself,
// changed: its index and all that it has learnt stay. Of the others, Manual
// keeps its keys and Bucket its ranges. It is called as a Chooser is, under the
// registry's lock; old must not be used any more unless it is what is returned.
func Renew(old workers.Chooser, prefill, decode string, cfg Config) (workers.Chooser, bool) {
	next, ok := New(prefill, decode, cfg)
	if !ok {
		return nil, false
	}
	was, is := pickersOf(old), pickersOf(next)
	for role := range is {
		inherit(is[role], was[role])
	}
	known, keeps := old.(*CacheAware)
	if c, still := next.(*CacheAware); still && keeps {
		known.become(c)
		return known, true
	}
	return next, true
}

// pickersOf returns what chooses for each leg, but for what CacheAware does
// itself.
func pickersOf(c workers.Chooser) (all [2]Picker) {
	switch c := c.(type) {
	case *Legs:
		all = [2]Picker{c.Prefill, c.Decode}
	case *CacheAware:
		all = [2]Picker{c.otherPrefill, c.otherDecode}
		for role, m := range c.keyed {
			if m != nil {
				all[role] = m // which has the other inside
			}
		}
	}
	return all
}

// inherit gives next what old has learnt.
func inherit(next, old Picker) {
	if m, is := next.(*Manual); is {
		if o, was := old.(*Manual); was {
			m.adopt(o)
			old = o.rest
		}
		inherit(m.rest, old)
		return
	}
	if o, was := old.(*Manual); was {
		o.cfg.Branches.add(-int64(len(o.keys))) // they are remembered no longer
		inherit(next, o.rest)
		return
	}
	if b, is := next.(*Bucket); is {
		if o, was := old.(*Bucket); was {
			cfg := b.cfg
			*b = *o
			b.cfg = cfg
		}
	}
}

// adopt takes the keys of o, which is not used any more.
func (m *Manual) adopt(o *Manual) {
	if len(o.keys) == 0 {
		return
	}
	m.keys = o.keys
	m.old.older, m.old.newer = o.old.older, o.old.newer
	m.old.older.newer, m.old.newer.older = &m.old, &m.old
}

// become makes c what next is, but for what c knows.
func (c *CacheAware) become(next *CacheAware) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg = next.cfg
	c.otherPrefill, c.otherDecode = next.otherPrefill, next.otherDecode
	c.keyed = next.keyed
	for _, m := range c.keyed {
		if m == nil {
			continue
		}
		if o, is := m.rest.(own); is {
			m.rest = own{c, o.role}
		}
	}
	c.mirrors.resize(c.cfg.MaxBlocks)
	for _, b := range *c.seats.Load() {
		if b != nil {
			c.fit(b)
		}
	}
}

// resize bounds the blocks that the mirrors may know of.
func (s *mirrors) resize(blocks int) {
	s.names.resize(namesFor(blocks))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = blocks
}

// resize bounds how many blocks are remembered.
func (n *names) resize(limit int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if limit = max(limit, 1); limit == n.limit {
		return
	}
	n.limit = limit
	n.order = slices.Concat(n.order[n.next:], n.order[:n.next]) // the oldest first
	n.next = 0
	for over := len(n.order) - limit; over > 0; over-- {
		oldest := n.order[0]
		n.unlinkLocked(oldest, n.at[oldest].tokens)
		delete(n.at, oldest)
		n.order = n.order[1:]
	}
}
