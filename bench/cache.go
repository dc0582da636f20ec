package bench

import "slices"

// cache is the prefix cache of a model engine: blocks by last use, bounded. A
// prompt's blocks are used from the last to the first, so that the least
// recently used block is always one that no other follows.
type cache struct {
	blocks map[int64]*cached
	ends   cached // newer: the oldest; older: the newest
	limit  int
}

type cached struct {
	id           int64
	older, newer *cached
}

func newCache(limit int) *cache {
	c := &cache{limit: limit}
	c.flush()
	return c
}

func (c *cache) flush() {
	c.blocks = map[int64]*cached{}
	c.ends.older, c.ends.newer = &c.ends, &c.ends
}

// match returns how many of ids, from the first, are there.
func (c *cache) match(ids []int64) int {
	for i, id := range ids {
		if c.blocks[id] == nil {
			return i
		}
	}
	return len(ids)
}

// use puts ids in, as used now, and drops what is too much.
func (c *cache) use(ids []int64) {
	for _, id := range slices.Backward(ids) {
		b := c.blocks[id]
		if b == nil {
			b = &cached{id: id}
			c.blocks[b.id] = b
		} else {
			b.older.newer, b.newer.older = b.newer, b.older
		}
		b.older, b.newer = c.ends.older, &c.ends
		b.older.newer, b.newer.older = b, b
	}
	for len(c.blocks) > c.limit {
		b := c.ends.newer
		b.older.newer, b.newer.older = b.newer, b.older
		delete(c.blocks, b.id)
	}
}
