package policy

import (
	"sync/atomic"
	"time"

	"pdrouter/workers"
)

// A book is what cache_aware knows of one worker.
type book struct {
	worker *workers.Worker
	held   *held
	mirror atomic.Pointer[mirror] // of an engine whose KV events are followed; nil: it is not

	// The lock of CacheAware guards the rest.

	queue   queue
	pace    pace
	keep    keep
	kv      float64       // tokens that the engine's KV pool holds; 0: not known
	page    float64       // tokens of one of its blocks; likewise
	foreign float64       // legs that the engine reports beyond ours, on average of late
	credit  float64       // share of requests that a warming worker has not had yet
	planned time.Duration // in a plan: the work of those that are to go there first
}

// matched returns how many blocks of need's prompt the worker is believed to
// hold, from need's Matches if nothing has changed since these were made.
func (b *book) matched(seat int, need *workers.Need) int {
	m := need.Matches
	if m == nil || seat >= len(m.Versions) {
		return b.held.match(need.Prompt.Chain, 0)
	}
	if v := b.held.version.Load(); m.Versions[seat] != v {
		m.Versions[seat], m.Blocks[seat] = v, int32(b.held.match(need.Prompt.Chain, 0))
	}
	return int(m.Blocks[seat])
}

// backlog returns how long the worker is busy with what it has been sent.
func (b *book) backlog(now time.Time, mean time.Duration) time.Duration {
	return b.queue.backlog(now) + time.Duration(max(b.foreign-1, 0)*float64(mean))
}

// work returns how long the worker takes for a prompt of which it holds so
// many blocks.
func (c *CacheAware) work(b *book, p *workers.Prompt, blocks int) time.Duration {
	return time.Duration(float64(c.usual(p, blocks)) * b.pace.value())
}

// usual returns how long a worker like all would take.
func (c *CacheAware) usual(p *workers.Prompt, blocks int) time.Duration {
	leg, perByte := c.speed.line()
	left := max(p.Bytes-blocks*c.blockOf(p), 0)
	return time.Duration((leg + perByte*float64(left)) * float64(time.Second))
}
