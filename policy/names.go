package policy

import (
	"math/bits"
	"sync"
)

// names joins our blocks to engines' blocks: to the ends of sequences of
// tokens. Once it is known where in a sequence of tokens a block of a prompt
// ends, it is known for all workers, for the same text is the same tokens
// everywhere, and for as long as it is remembered.
//
// A sequence of tokens is named by a hash of all of it ([grown]), whatever the
// size of the engine's blocks.
type names struct {
	mu    sync.Mutex
	limit int               // blocks remembered
	at    map[name]ending   // where a block ends
	first map[uint64]uint32 // by sequence: the first of its blocks in links
	links []link            // 0 is none
	free  uint32
	order []name // in which they came; a ring once it is full
	next  int
}

// A name is a block of ours, as it lies in engine blocks of one size.
type name struct {
	key  uint64
	size int32
}

// An ending is where a block ends: in the engine block that ends with this
// sequence, and after so many tokens as far as can be told.
type ending struct {
	tokens uint64
	depth  int32
	exact  float32
}

// A link is an element of the list of our blocks that end within one engine
// block.
type link struct {
	key   uint64
	next  uint32
	block int32 // its number in its prompt
	size  int32
}

func newNames(limit int) *names {
	return &names{limit: max(limit, 1), at: map[name]ending{}, first: map[uint64]uint32{}, links: make([]link, 1)}
}

// clear forgets all.
func (n *names) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at, n.first, n.links, n.free, n.order, n.next = map[name]ending{}, map[uint64]uint32{}, make([]link, 1), 0, nil, 0
}

// append appends to dst the blocks that end with a sequence of tokens.
func (n *names) append(dst []uint64, tokens uint64) []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := n.first[tokens]; l != 0; l = n.links[l].next {
		dst = append(dst, n.links[l].key)
	}
	return dst
}

// agree counts how many of the blocks that end with a sequence are blocks of
// chain, and how many are not.
func (n *names) agree(tokens uint64, chain []uint64) (yes, no int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := n.first[tokens]; l != 0; l = n.links[l].next {
		if x := n.links[l]; int(x.block) < len(chain) && chain[x.block] == x.key {
			yes++
		} else {
			no++
		}
	}
	return yes, no
}

// find returns where a block ends.
func (n *names) find(key uint64, size int32) (ending, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.at[name{key, size}]
	return p, ok
}

// set notes where a block ends, which is a prompt's block of that number.
func (n *names) set(key uint64, block int, size int32, p ending) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := name{key, size}
	if old, ok := n.at[id]; ok {
		n.unlinkLocked(id, old.tokens)
	} else {
		n.makeRoomLocked(id)
	}
	n.at[id] = p
	l := n.free
	if l != 0 {
		n.free = n.links[l].next
	} else {
		n.links = append(n.links, link{})
		l = uint32(len(n.links) - 1)
	}
	n.links[l] = link{key: key, next: n.first[p.tokens], block: int32(block), size: size}
	n.first[p.tokens] = l
}

// makeRoomLocked forgets the block that came first, if there are too many.
func (n *names) makeRoomLocked(id name) {
	if len(n.order) < n.limit {
		n.order = append(n.order, id)
		return
	}
	oldest := n.order[n.next]
	n.unlinkLocked(oldest, n.at[oldest].tokens)
	delete(n.at, oldest)
	n.order[n.next] = id
	n.next = (n.next + 1) % len(n.order)
}

// unlinkLocked takes a block out of the list of a sequence.
func (n *names) unlinkLocked(id name, tokens uint64) {
	before := uint32(0)
	for l := n.first[tokens]; l != 0; before, l = l, n.links[l].next {
		if n.links[l].key != id.key || n.links[l].size != id.size {
			continue
		}
		after := n.links[l].next
		switch {
		case before != 0:
			n.links[before].next = after
		case after != 0:
			n.first[tokens] = after
		default:
			delete(n.first, tokens)
		}
		n.links[l] = link{next: n.free}
		n.free = l
		return
	}
}

// grown returns the name of a sequence of tokens that has one more. It is never
// 0, which stands for a sequence that is not known.
func grown(tokens uint64, id uint64) uint64 {
	high, low := bits.Mul64(tokens^(id+1)*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return max(high^low, 1)
}

// noTokens is the name of the sequence of no tokens.
const noTokens = 0xa0761d6478bd642f
