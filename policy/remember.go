package policy

import (
	"math"
	"time"

	"pdrouter/workers"
)

// What is remembered of all workers, and of each: the names under which
// workers.Memory has it, and how many numbers there are.
const (
	ofSpeed  = "speed"  // of all; n, x, y, xx, xy of the line
	ofRatio  = "ratio"  // of all; bytes, the tokens that they were, n
	ofMean   = "mean"   // of all; seconds of a leg
	ofShared = "shared" // of all; the shares of the blocks

	ofBlock = "block" // of all, and of each; bytes of a block, and 1 if these are fitted

	ofPace = "pace" // took, expected, n
	ofKept = "kept" // share
	ofPool = "pool" // tokens that the KV pool holds
)

// longestMean is the most seconds of a leg that are believed.
const longestMean = 3600

// blockKind is another number for blocks that are hashed in another way.
func blockKind() uint64 {
	text := make([]byte, 2*BlockBytes)
	for i := range text {
		text[i] = byte(i)
	}
	chain := Chain(nil, [][]byte{[]byte("model")}, [][]byte{text}, BlockBytes)
	return chain[len(chain)-1]
}

// Overall implements workers.Rememberer.
func (c *CacheAware) Overall() workers.Overall {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := workers.Overall{Kind: blockKind(), Changes: c.changes}
	for _, b := range *c.seats.Load() {
		if b != nil {
			o.Changes += b.held.version.Load()
		}
	}
	o.Blocks = append(o.Blocks, c.shared.chain...)
	shares := make([]float64, len(c.shared.share))
	for i, s := range c.shared.share {
		shares[i] = float64(s)
	}
	s := &c.speed
	o.Learnt = map[string][]float64{
		ofSpeed:  {s.n, s.x, s.y, s.xx, s.xy},
		ofRatio:  {c.ratio.bytes, c.ratio.tokens, c.ratio.n},
		ofBlock:  c.blockNow(),
		ofMean:   {c.mean.Seconds()},
		ofShared: shares,
	}
	return o
}

// Adopt implements workers.Rememberer.
func (c *CacheAware) Adopt(m workers.Memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := numbers(m, ofSpeed, 5); v != nil {
		c.speed = speed{n: v[0], x: v[1], y: v[2], xx: v[3], xy: v[4]}
	}
	if v := numbers(m, ofRatio, 3); v != nil && v[0] > 0 && v[1] > 0 {
		c.ratio = ratio{bytes: v[0], tokens: v[1], n: v[2]}
	}
	if v := numbers(m, ofMean, 1); v != nil {
		c.mean = time.Duration(min(v[0], longestMean) * float64(time.Second))
	}
	if v := numbers(m, ofBlock, 2); v != nil {
		c.useBlocks(int(min(v[0], mostBlock+1)))
		c.block.sized = v[1] > 0 && c.sameBlocks(m)
	}
	shares := numbers(m, ofShared, len(m.Blocks))
	c.shared = newShared(c.BlockBytes())
	if len(shares) > cap(c.shared.chain) || !c.sameBlocks(m) {
		return
	}
	for i, s := range shares {
		c.shared.chain = append(c.shared.chain, m.Blocks[i])
		c.shared.share = append(c.shared.share, float32(min(s, 1)))
	}
}

// Remember implements workers.Rememberer.
func (c *CacheAware) Remember(seat int, w *workers.Worker, dst []uint64) workers.Memory {
	c.mu.Lock()
	b := c.at(seat)
	if b == nil || b.worker != w {
		c.mu.Unlock()
		return workers.Memory{Blocks: dst}
	}
	m := workers.Memory{Learnt: map[string][]float64{
		ofBlock: c.blockNow(),
		ofPace:  {b.pace.took, b.pace.expected, b.pace.n},
		ofKept:  {b.keep.share},
		ofPool:  {b.kv},
	}}
	c.mu.Unlock()
	m.Blocks = b.held.appendOldest(dst)
	if !c.sameBlocks(m) { // some of them may be longer than others
		m.Blocks = m.Blocks[:len(dst)]
	}
	return m
}

// Recall implements workers.Rememberer.
func (c *CacheAware) Recall(seat int, w *workers.Worker, m workers.Memory) (blocks int) {
	c.mu.Lock()
	b := c.book(&workers.Load{Worker: w, Seat: seat})
	if v := numbers(m, ofPace, 3); v != nil {
		b.pace = pace{took: v[0], expected: v[1], n: v[2]}
	}
	if v := numbers(m, ofKept, 1); v != nil && v[0] > 0 && v[0] <= 1 {
		b.keep.share = v[0]
	}
	if v := numbers(m, ofPool, 1); v != nil && b.kv == 0 {
		b.kv = v[0]
	}
	c.fit(b)
	c.mu.Unlock()
	if c.sameBlocks(m) {
		b.held.fill(m.Blocks)
		if followed := b.mirror.Load(); followed != nil {
			followed.doubt(m.Blocks)
		}
	}
	blocks, _ = b.held.size()
	return blocks
}

// blockNow is how long blocks are, for a memory.
func (c *CacheAware) blockNow() []float64 {
	sized := 0.0
	if c.block.sized {
		sized = 1
	}
	return []float64{float64(c.BlockBytes()), sized}
}

// sameBlocks reports whether the blocks of a memory are as long as ours are now.
func (c *CacheAware) sameBlocks(m workers.Memory) bool {
	v := numbers(m, ofBlock, 2)
	return v != nil && v[0] == float64(c.BlockBytes())
}

// numbers returns the n numbers of that name; nil: they are not there, or no
// numbers that anything here can have learnt.
func numbers(m workers.Memory, name string, n int) []float64 {
	v := m.Learnt[name]
	if len(v) != n {
		return nil
	}
	for _, x := range v {
		if !(x >= 0) || x > math.MaxFloat32 { // squares of bytes stay far below it
			return nil
		}
	}
	return v
}
