package policy

import (
	"math"
	"time"

	"pdrouter/workers"
)

// ratio learns how many bytes of a request's prompt make a token.
type ratio struct{ bytes, tokens, n float64 }

const (
	ratioMemory = 0.99 // what an observation's weight falls by with the next
	ratioLearnt = 32   // legs from which it counts as learnt
	firstRatio  = 4    // bytes of English for each token
)

func (r *ratio) learn(bytes, tokens int) {
	r.bytes = r.bytes*ratioMemory + float64(bytes)
	r.tokens = r.tokens*ratioMemory + float64(tokens)
	r.n = r.n*ratioMemory + 1
}

func (r *ratio) learnt() bool { return r.n >= ratioLearnt }

func (r *ratio) value() float64 {
	if r.tokens == 0 {
		return firstRatio
	}
	return r.bytes / r.tokens
}

// Ended implements workers.Learner.
func (c *CacheAware) Ended(seat int, p workers.Prefilled) {
	b, sent := c.ended(seat, &p)
	if b == nil || !p.OK || !c.current(&p.Prompt) {
		return
	}
	if m := b.mirror.Load(); m != nil {
		m.end(endedLeg{
			chain: p.Prompt.Chain, block: c.blockOf(&p.Prompt), bytes: p.Prompt.Bytes, tokens: p.Tokens, cached: p.Cached,
			sent: sent, ended: p.At,
		})
	}
}

// ended takes in what a leg says of its worker. It returns when it was sent.
func (c *CacheAware) ended(seat int, p *workers.Prefilled) (b *book, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b = c.at(seat); b == nil {
		return nil, sent
	}
	c.changes++
	sent, sure := b.queue.sent(p.Expect.Ticket)
	took := b.queue.end(p.At, p.Expect.Ticket)
	if !p.OK {
		b.held.forget(p.Prompt.Chain, p.Expect.Blocks)
		return b, sent
	}
	if p.Tokens > 0 {
		c.ratio.learn(p.Prompt.Bytes, p.Tokens)
	}
	c.learn(b, p, sure, took)
	c.sizeBlocks()
	c.fit(b)
	return b, sent
}

// learn takes in what a prefill leg found in the cache, of which the first held
// blocks were there when it was sent, and how long it took; below 0: that is not
// known.
func (c *CacheAware) learn(b *book, p *workers.Prefilled, held int, took time.Duration) {
	found, sure := c.found(p, took)
	if noted, _ := b.held.size(); c.current(&p.Prompt) && !b.exact() { // else nothing was guessed
		b.keep.saw(p.Expect.Blocks, held, found, noted, b.page*c.ratio.value()/float64(c.BlockBytes()))
	}
	if took < 0 {
		return
	}
	if c.mean == 0 {
		c.mean = took
	}
	c.mean += (took - c.mean) / 32
	if sure {
		left := float64(max(p.Prompt.Bytes-found*c.blockOf(&p.Prompt), 0))
		if c.speed.n >= speedLearnt {
			b.pace.learn(c.usual(&p.Prompt, found), took)
			c.fade(b)
		}
		c.speed.learn(left, took)
	}
}

// fade lets what is known of the others' pace fade.
func (c *CacheAware) fade(b *book) {
	for _, other := range *c.seats.Load() {
		if other != nil && other != b {
			other.pace.fade()
		}
	}
}

// found returns how many blocks of a prompt were cached: what the engine says,
// else what was believed. If the leg took more than half as long as all that
// was believed to be cached would have, none was, but then it is not sure
// enough to learn the speed from it.
func (c *CacheAware) found(p *workers.Prefilled, took time.Duration) (blocks int, sure bool) {
	believed := p.Expect.Blocks
	if p.Tokens > 0 && p.Cached >= 0 {
		share := float64(p.Cached) / float64(p.Tokens)
		blocks = int(share * float64(p.Prompt.Bytes) / float64(c.blockOf(&p.Prompt)))
		return min(blocks, len(p.Prompt.Chain)), true
	}
	if c.speed.n < speedLearnt { // begin with legs of which most was computed
		return believed, 4*believed <= len(p.Prompt.Chain)
	}
	_, perByte := c.speed.line()
	saved := time.Duration(perByte * float64(believed*c.blockOf(&p.Prompt)) * float64(time.Second))
	if believed > 0 && took > p.Expect.Work+saved/2 {
		return 0, false
	}
	return believed, true
}

// Reported implements workers.Learner.
func (c *CacheAware) Reported(seat int, r workers.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.at(seat); b != nil {
		c.reported(b, r)
	}
}

func (c *CacheAware) reported(b *book, r workers.Report) {
	if r.KVCapacity > 0 {
		b.kv = r.KVCapacity
		c.fit(b)
	}
	if r.BlockSize > 0 {
		b.page = r.BlockSize
	}
	if legs := r.Running + r.Waiting; !math.IsNaN(legs) {
		// A report is late, by a poll at least: only what lasts is foreign.
		b.foreign += (legs - float64(b.queue.open) - b.foreign) / 16
	}
}

// Flushed implements workers.Learner.
func (c *CacheAware) Flushed(seat int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.at(seat); b != nil {
		b.held.clear()
		b.keep.share = 1
	}
}

// Gone implements workers.Learner.
func (c *CacheAware) Gone(seat int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mirrors.gone(seat)
	if c.at(seat) != nil {
		c.seat(seat, nil)
	}
}

func (c *CacheAware) at(seat int) *book {
	if seats := *c.seats.Load(); seat < len(seats) {
		return seats[seat]
	}
	return nil
}

// mostBlocks returns how many blocks b's engine can hold, or how many may be
// noted if that is less or not known.
func (c *CacheAware) mostBlocks(b *book) float64 {
	most := c.part()
	if b.kv > 0 {
		most = min(most, b.kv*c.ratio.value()/float64(c.BlockBytes()))
	}
	return most
}

// part returns how many blocks of the index are for each worker.
func (c *CacheAware) part() float64 {
	n := 0
	for _, b := range *c.seats.Load() {
		if b != nil {
			n++
		}
	}
	return float64(c.cfg.MaxBlocks / max(n, 1))
}

// fit makes b's set as large as what its engine keeps. Small changes are let
// be. An engine that tells what it keeps is not second-guessed.
func (c *CacheAware) fit(b *book) {
	b.keep.hold(c.mostBlocks(b))
	limit := b.keep.blocks()
	if m := b.mirror.Load(); m != nil {
		m.keeps.Store(int64(limit))
		m.room.Store(int64(c.part()))
		if b.exact() {
			limit = int(c.part())
		}
	}
	if _, now := b.held.size(); math.Abs(float64(limit-now)) > 0.01*float64(now) {
		b.held.resize(limit)
	}
}

// A Knowledge is what has been learnt of a worker, for people and metrics.
type Knowledge struct {
	Worker  *workers.Worker
	Blocks  int           // believed to be in its cache
	Keeps   int           // the most blocks that it is believed to keep
	Share   float64       // of what its KV pool holds
	Learnt  bool          // whether the two speeds are, or else what is assumed at first
	PerLeg  time.Duration // of prefill, whatever the prompt
	PerByte time.Duration // likewise, for 1000 bytes of prompt that are not cached
	Queued  int           // legs sent and not ended
	Backlog time.Duration // the work of these
	Foreign float64       // legs that others have there
	Exact   bool          // Blocks is what the engine's KV events say, not a belief
}

// Known returns what has been learnt: of each worker, and how many bytes of
// prompt make a token, which is 0 as long as no engine has said.
func (c *CacheAware) Known(now time.Time) (known []Knowledge, bytesPerToken float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range *c.seats.Load() {
		if b == nil {
			continue
		}
		leg, perByte := c.speed.line()
		leg, perByte = leg*b.pace.value(), perByte*b.pace.value()
		count, limit := b.held.size()
		known = append(known, Knowledge{
			Worker: b.worker, Blocks: count, Keeps: limit, Share: b.keep.share,
			Learnt: c.speed.n >= speedLearnt,
			PerLeg: time.Duration(leg * float64(time.Second)), PerByte: time.Duration(perByte * 1000 * float64(time.Second)),
			Queued: b.queue.open, Backlog: b.queue.backlog(now), Foreign: max(b.foreign, 0), Exact: b.exact(),
		})
	}
	if c.ratio.tokens > 0 {
		bytesPerToken = c.ratio.value()
	}
	return known, bytesPerToken
}
