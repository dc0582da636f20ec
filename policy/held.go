package policy

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// held is the set of blocks that one worker is believed to hold: a hash table
// and a list by last use, bounded like the engine's own cache.
//
// A prompt's blocks are used from the last to the first, so that a block is
// always newer in the list than those which follow it in a prompt. What is
// dropped at the old end therefore never has a successor: the set stays closed
// under "the block before it", as in an engine's radix tree, and how much of a
// prompt is held can be found by bisection.
//
// Lookups take no lock: they read words that are written one at a time. A
// lookup that meets a change may be wrong by the block which changes, and that
// is no more than any estimate may be.
type held struct {
	table   atomic.Pointer[table]
	version atomic.Uint64 // grows whenever the set changes; no two sets have the same

	copying sync.Mutex // there is one copy at a time; taken before mu

	mu    sync.Mutex // for writers; guards the rest and the table's lists
	count int
	limit int
}

// A table is a held's memory. It is replaced when it is too small.
type table struct {
	slots []atomic.Uint64 // by key: its lower half, and the place of its node; 0: empty
	nodes []node          // node 0 is the list's end and its beginning
	free  uint32          // list of nodes that were dropped, by older; 0: none
	used  uint32          // nodes from here on have never been used

	// copied is the newest node that a copy which is under way has; 0: the copy
	// has none, or there is no copy. See held.appendOldest.
	copied uint32
}

// A node is a block: 16 bytes, and 11 more in slots.
type node struct {
	key          uint64
	newer, older uint32
}

// leastNodes is how many nodes a table begins with.
const leastNodes = 64

// newHeld returns an empty set of at most limit blocks. The serial is another
// one for each.
func newHeld(serial uint32, limit int) *held {
	h := &held{limit: max(limit, 0)}
	h.version.Store(uint64(serial) << 32)
	h.table.Store(newTable(min(leastNodes, h.limit)))
	return h
}

// newTable returns an empty table for so many blocks. Its slots are three
// quarters full at most.
func newTable(blocks int) *table {
	return &table{slots: make([]atomic.Uint64, blocks*4/3+2), nodes: make([]node, blocks+1), used: 1}
}

// match returns how many blocks a prompt begins with that are held. A good
// guess makes it quick; it is 0 if there is none.
func (h *held) match(chain []uint64, guess int) int {
	t := h.table.Load()
	low, high := 0, len(chain) // at least and at most so many
	if guess = min(guess, high); guess > 0 {
		switch {
		case t.find(chain[guess-1]) == 0:
			high = guess - 1
		case guess == high || t.find(chain[guess]) == 0:
			return guess
		default:
			low = guess + 1
		}
	}
	if high == 0 || low == 0 && t.find(chain[0]) == 0 {
		return 0
	}
	if low = max(low, 1); t.find(chain[high-1]) != 0 {
		return high
	}
	for high--; low < high; {
		if middle := (low + high + 1) / 2; t.find(chain[middle-1]) != 0 {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// home returns the slot where the search for a key begins.
func (t *table) home(key uint64) int {
	i, _ := bits.Mul64(key, uint64(len(t.slots)))
	return int(i)
}

// after returns the slot that is looked at after slot i.
func (t *table) after(i int) int {
	if i++; i < len(t.slots) {
		return i
	}
	return 0
}

// find returns the place of the node with a key; 0: there is none. It looks at
// slots only, each of which has half the key and its place in the table tells
// most of the other half.
func (t *table) find(key uint64) uint32 {
	for i := t.home(key); ; i = t.after(i) {
		s := t.slots[i].Load()
		if s == 0 || s>>32 == key&math.MaxUint32 {
			return uint32(s)
		}
	}
}

// use notes that the worker holds all blocks of chain, or as many of the first
// as it may hold at all, and that they were used just now.
func (h *held) use(chain []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := false
	for _, key := range slices.Backward(chain[:min(len(chain), h.limit)]) {
		t := h.table.Load()
		place := t.find(key)
		if place != 0 {
			t.unlink(place)
		} else {
			place, changed = h.addLocked(key), true
			t = h.table.Load()
		}
		t.pushNewest(place)
	}
	if changed {
		h.version.Add(1)
	}
}

// addLocked makes a node for key, which is not in the list yet.
func (h *held) addLocked(key uint64) uint32 {
	if h.count >= h.limit {
		h.dropLocked(h.table.Load().nodes[0].newer) // the oldest
	}
	t := h.table.Load()
	if t.free == 0 && int(t.used) == len(t.nodes) {
		t = h.growLocked(t)
	}
	place := t.free
	if place != 0 {
		t.free = t.nodes[place].older
	} else {
		place = t.used
		t.used++
	}
	t.nodes[place].key = key
	t.insert(key, place)
	h.count++
	return place
}

// growLocked moves the blocks to a table of twice the size.
func (h *held) growLocked(old *table) *table {
	t := newTable(min(2*len(old.nodes), h.limit))
	for place := old.nodes[0].newer; place != 0; place = old.nodes[place].newer {
		to := t.used
		t.used++
		key := old.nodes[place].key
		t.nodes[to].key = key
		t.insert(key, to)
		t.pushNewest(to)
		if place == old.copied {
			t.copied = to
		}
	}
	h.table.Store(t)
	return t
}

// dropLocked takes a block out.
func (h *held) dropLocked(place uint32) {
	t := h.table.Load()
	t.unlink(place)
	t.remove(place)
	t.nodes[place].older = t.free
	t.free = place
	h.count--
}

// forget drops the blocks of chain from the one with that number on.
func (h *held) forget(chain []uint64, from int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range chain[min(from, len(chain)):] {
		if place := h.table.Load().find(key); place != 0 {
			h.dropLocked(place)
		}
	}
	h.version.Add(1)
}

// batch is how many blocks are held or dropped before others get the lock.
const batch = 1024

// hold adds the blocks that are not there, as if they had been used: those of
// an engine that says that it has them.
func (h *held) hold(keys []uint64) {
	for part := range slices.Chunk(keys, batch) {
		h.mu.Lock()
		changed := false
		for _, key := range slices.Backward(part) {
			if h.limit > 0 && h.table.Load().find(key) == 0 {
				place := h.addLocked(key)
				h.table.Load().pushNewest(place)
				changed = true
			}
		}
		h.changedLocked(changed)
		h.mu.Unlock()
	}
}

// drop drops blocks, whatever comes before and after them.
func (h *held) drop(keys []uint64) {
	for part := range slices.Chunk(keys, batch) {
		h.mu.Lock()
		changed := false
		for _, key := range part {
			if place := h.table.Load().find(key); place != 0 {
				h.dropLocked(place)
				changed = true
			}
		}
		h.changedLocked(changed)
		h.mu.Unlock()
	}
}

func (h *held) changedLocked(is bool) {
	if is {
		h.version.Add(1)
	}
}

// resize sets how many blocks may be held; the oldest beyond it are dropped.
// Of a table that is much too large the memory is given back.
func (h *held) resize(limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = max(limit, 0)
	if h.count <= h.limit {
		return
	}
	for h.count > h.limit {
		h.dropLocked(h.table.Load().nodes[0].newer)
	}
	if t := h.table.Load(); len(t.nodes) > 4*(h.limit+1) {
		h.growLocked(t)
	}
	h.version.Add(1)
}

// clear drops all blocks.
func (h *held) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table.Store(newTable(min(leastNodes, h.limit)))
	h.count = 0
	h.version.Add(1)
}

// size returns how many blocks are held, and how many may be.
func (h *held) size() (count, limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count, h.limit
}

// insert puts place into a slot for key. There is an empty one.
func (t *table) insert(key uint64, place uint32) {
	i := t.home(key)
	for t.slots[i].Load() != 0 {
		i = t.after(i)
	}
	t.slots[i].Store(key<<32 | uint64(place))
}

// remove takes place out of its slot, and moves up those behind it which would
// not be found any more.
func (t *table) remove(place uint32) {
	hole := t.home(t.nodes[place].key)
	for uint32(t.slots[hole].Load()) != place {
		hole = t.after(hole)
	}
	for i := t.after(hole); ; i = t.after(i) {
		s := t.slots[i].Load()
		if s == 0 {
			break
		}
		if home := t.home(t.nodes[uint32(s)].key); t.distance(home, i) >= t.distance(hole, i) {
			t.slots[hole].Store(s)
			hole = i
		}
	}
	t.slots[hole].Store(0)
}

// distance returns how many slots after a comes b.
func (t *table) distance(a, b int) int {
	if b >= a {
		return b - a
	}
	return b - a + len(t.slots)
}

// pushNewest puts a node at the new end of the list.
func (t *table) pushNewest(place uint32) {
	newest := t.nodes[0].older
	t.nodes[place].older, t.nodes[place].newer = newest, 0
	t.nodes[newest].newer, t.nodes[0].older = place, place
}

// unlink takes a node out of the list.
func (t *table) unlink(place uint32) {
	n := &t.nodes[place]
	if place == t.copied {
		t.copied = n.older
	}
	t.nodes[n.newer].older, t.nodes[n.older].newer = n.older, n.newer
}
