package policy

import (
	"math"
	"math/bits"
	"sync/atomic"

	"pdrouter/workers"
)

const (
	// leastBlock and mostBlock bound what is chosen, in bytes. A decision about a
	// long prompt takes nearly twice as long with half of the least, most of it to
	// note the blocks, and what that finds is a few tokens of short prompts
	// (docs/performance.md). The most is more than any engine's block is known to
	// be.
	leastBlock = BlockBytes
	mostBlock  = 16 << 10

	// sizeFirst is after how many legs the block is sized for the first time,
	// and sizeAgain for how many legs in a row it must have been wrong to be
	// changed once more.
	sizeFirst = 64
	sizeAgain = 4096
)

// A blockSize decides how long a fingerprint's blocks are: as long as those of
// the engines' KV caches. In blocks that are longer, what two prompts share is
// not seen up to its end, and nothing of short ones; in shorter ones it is taken
// for more than the engine keeps, which reuses whole blocks only.
//
// A change costs all that is known of what is where, as no chain of the old
// blocks is one of the new. So there is one when the ratio of bytes to tokens
// has been learnt, and after that hardly ever: lengths are powers of two, and
// another is taken only if the present one has been wrong by a factor of two for
// thousands of legs on end.
type blockSize struct {
	bytes atomic.Int64 // written under CacheAware's lock, read by anyone
	fixed bool
	sized bool
	wrong int // legs in a row
}

// seen takes in that another leg has ended, and what the block should be long; 0:
// not known. It reports whether the length was changed.
func (s *blockSize) seen(want float64) bool {
	if s.fixed || !(want > 0) {
		return false
	}
	now := float64(s.bytes.Load())
	want = min(max(want, leastBlock), mostBlock)
	if max(want/now, now/want) < 2 {
		s.wrong = 0
		return false
	}
	if s.wrong++; s.wrong < sizeFirst || s.sized && s.wrong < sizeAgain {
		return false
	}
	s.bytes.Store(1 << int(math.Round(math.Log2(want))))
	s.wrong, s.sized = 0, true
	return true
}

// BlockBytes returns how long the blocks of a prompt's Chain are to be.
func (c *CacheAware) BlockBytes() int { return int(c.block.bytes.Load()) }

// useBlocks sets how long blocks are at first, for blocks that were noted
// earlier. It does nothing if the length is fixed, or is none that is chosen.
func (c *CacheAware) useBlocks(bytes int) {
	if !c.block.fixed && bytes >= leastBlock && bytes <= mostBlock && bits.OnesCount(uint(bytes)) == 1 {
		c.setBlocks(bytes)
	}
}

// sizeBlocks takes in that a leg has ended.
func (c *CacheAware) sizeBlocks() {
	if c.block.seen(c.wantedBlock()) {
		c.setBlocks(c.BlockBytes())
	}
}

// wantedBlock returns how many bytes of text make a block of the engines, 0 if
// that is not known. If they differ it is the smallest. It is no less than what
// it takes for the index to cover all that the engines hold.
func (c *CacheAware) wantedBlock() float64 {
	tokens, pools := 0.0, 0.0
	for _, b := range *c.seats.Load() {
		if b == nil {
			continue
		}
		pools += b.kv
		if b.page > 0 && (tokens == 0 || b.page < tokens) {
			tokens = b.page
		}
	}
	if tokens == 0 || !c.ratio.learnt() {
		return 0
	}
	return max(tokens, pools/float64(max(c.cfg.MaxBlocks, 1))) * c.ratio.value()
}

// setBlocks changes the length, and forgets what was counted in another.
func (c *CacheAware) setBlocks(bytes int) {
	c.block.bytes.Store(int64(bytes))
	c.shared = newShared(bytes)
	c.mirrors.forget()
	for _, b := range *c.seats.Load() {
		if b != nil {
			b.held.clear()
			c.fit(b)
		}
	}
}

// blockOf returns how long the blocks of a prompt's chain are. Ours may have
// changed since it was made.
func (c *CacheAware) blockOf(p *workers.Prompt) int {
	if p.Block > 0 {
		return p.Block
	}
	return c.BlockBytes()
}

// current reports whether a prompt's blocks are those that are noted.
func (c *CacheAware) current(p *workers.Prompt) bool { return c.blockOf(p) == c.BlockBytes() }
