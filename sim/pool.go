package sim

import "slices"

// A block is room for the KV of a fixed number of tokens.
type block struct {
	id     int
	refs   int    // requests that use it; 0: it may be taken
	key    uint64 // hash of the prefix that ends with it, if cached
	cached bool   // found by key in the pool's index
	prompt uint64 // identity of the prompt that wrote it last; survives being freed

	prev, next *block // in the free list, while refs is 0
}

// A pool is an engine's KV cache: blocks, each free or used, and an index by
// which full blocks of earlier prompts are found again until their place is
// needed. It is vLLM's: free blocks form one queue, least recently used first,
// whether they still hold something worth finding or not.
type pool struct {
	size   int // tokens per block
	caches bool
	blocks []block
	free   block // list head
	nfree  int
	idle   int // free blocks that are cached
	held   int // blocks that wait to be pulled; part of the used ones
	index  map[uint64]*block
}

// newPool returns a pool of n blocks of size tokens. Without caches no block
// is ever found again.
func newPool(n, size int, caches bool) *pool {
	p := &pool{size: size, caches: caches, blocks: make([]block, n), index: map[uint64]*block{}}
	p.free.prev, p.free.next = &p.free, &p.free
	for i := range p.blocks {
		// Block 0 is vLLM's null block and never leaves it.
		p.blocks[i].id = i + 1
		p.pushFree(&p.blocks[i])
	}
	return p
}

// need returns how many blocks hold tokens tokens.
func (p *pool) need(tokens int) int { return (tokens + p.size - 1) / p.size }

// allocate gives a prompt its blocks, cached ones first, for total tokens in
// all, and says how many of its tokens were found. It returns nil when there
// are not enough blocks. The last token is always computed again, because its
// outcome is what the first generated token comes from.
func (p *pool) allocate(prefixes []uint64, promptTokens, total int) (blocks []*block, cached int) {
	need := p.need(total)
	blocks = make([]*block, 0, need)
	for _, key := range prefixes[:p.lookups(promptTokens)] {
		b := p.index[key]
		if b == nil {
			break
		}
		blocks = append(blocks, b)
	}
	fresh := need - len(blocks)
	for _, b := range blocks {
		if b.refs == 0 {
			fresh++ // being used takes it out of the free ones, too
		}
	}
	if fresh > p.nfree {
		return nil, 0
	}
	cached = len(blocks) * p.size
	for _, b := range blocks {
		p.use(b)
	}
	for len(blocks) < need {
		blocks = append(blocks, p.take())
	}
	return blocks, cached
}

// lookups returns how many leading blocks of a prompt may be looked up.
func (p *pool) lookups(promptTokens int) int {
	if !p.caches {
		return 0
	}
	return max(promptTokens-1, 0) / p.size
}

// write notes that a prompt has been computed into blocks, of which the first
// cached tokens were there already, and lets its full blocks be found.
func (p *pool) write(blocks []*block, prefixes []uint64, promptTokens, cached int, id uint64) {
	for i := cached / p.size; i < min(len(blocks), len(prefixes)); i++ {
		b := blocks[i]
		b.prompt = id
		full := (i+1)*p.size <= promptTokens
		if !p.caches || !full || b.cached || p.index[prefixes[i]] != nil {
			continue
		}
		b.cached, b.key = true, prefixes[i]
		p.index[b.key] = b
	}
}

// take returns the least recently used free block, forgetting what it held,
// or nil.
func (p *pool) take() *block {
	if p.nfree == 0 {
		return nil
	}
	b := p.free.next
	p.use(b)
	if b.cached {
		delete(p.index, b.key)
		b.cached = false
	}
	return b
}

// use adds a user to b.
func (p *pool) use(b *block) {
	if b.refs == 0 {
		b.prev.next, b.next.prev = b.next, b.prev
		b.prev, b.next = nil, nil
		p.nfree--
		if b.cached {
			p.idle--
		}
	}
	b.refs++
}

// release takes a user from each block. The end of a prompt is given up before
// its beginning, which more prompts share.
func (p *pool) release(blocks []*block) {
	for _, b := range slices.Backward(blocks) {
		if b.refs--; b.refs == 0 {
			p.pushFree(b)
		}
	}
}

// pushFree makes b the last block to be taken.
func (p *pool) pushFree(b *block) {
	last := p.free.prev
	b.prev, b.next = last, &p.free
	last.next, p.free.prev = b, b
	p.nfree++
	if b.cached {
		p.idle++
	}
}

// flush forgets every cached block, when none is used.
func (p *pool) flush() {
	for _, b := range p.index {
		b.cached = false
	}
	clear(p.index)
	p.idle = 0
}

// content returns the identity of the prompt that last wrote block id.
func (p *pool) content(id int) (prompt uint64, ok bool) {
	if id < 1 || id > len(p.blocks) {
		return 0, false
	}
	return p.blocks[id-1].prompt, true
}
