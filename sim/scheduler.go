package sim

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A scheduler decides which sequences have blocks. Those which have not wait
// in one queue, first come, first served. Prompts are computed one at a time;
// answers are generated side by side. When a running sequence needs a block
// and none is free, the one that was admitted last loses all of its blocks and
// goes back to the head of the queue, as in vLLM: its work is done again.
//
// The goroutines of the sequences drive it; it has none of its own.
type scheduler struct {
	perToken time.Duration // to compute one prompt token
	slots    int           // sequences that may have blocks at a time

	mu        sync.Mutex
	pool      *pool
	queue     []*sequence // waiting
	running   []*sequence // generating, in the order they were admitted
	arriving  int
	computing bool // a prompt is being computed
	counts    schedulerCounts
}

// schedulerCounts are events since the start.
type schedulerCounts struct {
	queried, hit uint64 // prompt tokens looked up, found in the cache
	computed     uint64 // tokens computed of prompts, and of answers again
	first        uint64 // of them prompt tokens computed for the first time
	preemptions  uint64
}

// try puts q in the queue, and reports whether it has blocks at once. If not,
// await must follow.
func (s *scheduler) try(q *sequence) bool {
	s.mu.Lock()
	q.state = stateWaiting
	s.queue = append(s.queue, q)
	s.admitLocked()
	s.mu.Unlock()
	select {
	case <-q.ready:
		return true
	default:
		return false
	}
}

// await waits until q, which is in the queue, has blocks. If ctx ends first, q
// is out again and the cause is returned.
func (s *scheduler) await(ctx context.Context, q *sequence) error {
	select {
	case <-q.ready:
		return nil
	case <-ctx.Done():
		s.leave(q)
		return context.Cause(ctx)
	}
}

// enter is try and await.
func (s *scheduler) enter(ctx context.Context, q *sequence) error {
	if s.try(q) {
		return nil
	}
	return s.await(ctx, q)
}

// again puts q, which has blocks but not the KV it was to be given, back at
// the head of the queue to compute it itself, and waits until it has blocks.
func (s *scheduler) again(ctx context.Context, q *sequence) error {
	s.mu.Lock()
	s.dropLocked(q)
	s.requeueLocked(q)
	s.admitLocked()
	s.mu.Unlock()
	return s.await(ctx, q)
}

// admitLocked gives blocks to waiting sequences, in their order, as far as
// there are free slots and blocks.
func (s *scheduler) admitLocked() {
	for len(s.queue) > 0 && s.arriving+len(s.running) < s.slots {
		q := s.queue[0]
		if s.computing && !q.remote {
			return
		}
		blocks, cached := s.pool.allocate(q.prefixes, q.promptTokens, q.tokens())
		if blocks == nil {
			return
		}
		s.queue = slices.Delete(s.queue, 0, 1)
		s.arriving++
		q.blocks, q.cached, q.state = blocks, cached, stateArriving
		if q.generated.Load() == 0 {
			q.firstCached = cached
			s.counts.queried += uint64(q.promptTokens)
			s.counts.hit += uint64(cached)
		}
		q.computing = !q.remote && s.perToken > 0
		s.computing = s.computing || q.computing
		q.ready <- struct{}{}
	}
}

// compute takes the time that the tokens of q take which were not cached.
// When it fails, q is out.
func (s *scheduler) compute(ctx context.Context, q *sequence) error {
	todo := q.tokens() - q.cached
	if err := sleep(ctx, time.Duration(todo)*s.perToken); err != nil {
		s.leave(q)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.computed += uint64(todo)
	if q.generated.Load() == 0 {
		s.counts.first += uint64(todo)
	}
	s.startLocked(q)
	return nil
}

// start lets q generate, whose KV has come from another engine.
func (s *scheduler) start(q *sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startLocked(q)
}

func (s *scheduler) startLocked(q *sequence) {
	s.pool.write(q.blocks, q.prefixes, q.promptTokens, q.cached, q.id)
	s.arriving--
	s.running = append(s.running, q)
	q.state = stateRunning
	s.computedLocked(q)
}

// computedLocked gives the turn to compute to the next one.
func (s *scheduler) computedLocked(q *sequence) {
	if q.computing {
		q.computing, s.computing = false, false
		s.admitLocked()
	}
}

// The outcomes of grow.
const (
	growDone      = iota
	growPreempted // q is back in the queue
	growFull      // q has all the blocks there are
)

// grow gives q, which runs, blocks for tokens tokens in all. Others may lose
// theirs for it, or q itself.
func (s *scheduler) grow(q *sequence, tokens int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.state != stateRunning {
		return growPreempted
	}
	for need := s.pool.need(tokens); len(q.blocks) < need; {
		if b := s.pool.take(); b != nil {
			b.prompt = q.id
			q.blocks = append(q.blocks, b)
			continue
		}
		victim := s.running[len(s.running)-1]
		if victim == q && len(s.running) == 1 && s.arriving == 0 && s.pool.held == 0 {
			return growFull
		}
		s.dropLocked(victim)
		s.requeueLocked(victim)
		s.counts.preemptions++
		if victim == q {
			return growPreempted
		}
		victim.evicted <- struct{}{}
	}
	return growDone
}

// resume waits until q, which was preempted, has blocks again and has computed
// all it had.
func (s *scheduler) resume(ctx context.Context, q *sequence) error {
	select { // it may have found out without it
	case <-q.evicted:
	default:
	}
	if err := s.await(ctx, q); err != nil {
		return err
	}
	return s.compute(ctx, q)
}

// leave takes q out, wherever it is, and frees its blocks.
func (s *scheduler) leave(q *sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(q)
	s.admitLocked()
}

// hold takes q out but keeps its blocks, which the caller must free.
func (s *scheduler) hold(q *sequence) []*block {
	s.mu.Lock()
	defer s.mu.Unlock()
	blocks := q.blocks
	q.blocks = nil
	s.pool.held += len(blocks)
	s.dropLocked(q)
	s.admitLocked()
	return blocks
}

// freeHeld frees blocks that hold kept.
func (s *scheduler) freeHeld(blocks []*block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool.held -= len(blocks)
	s.pool.release(blocks)
	s.admitLocked()
}

// dropLocked takes q out and frees its blocks, without admitting others.
func (s *scheduler) dropLocked(q *sequence) {
	switch q.state {
	case stateWaiting:
		s.queue = slices.DeleteFunc(s.queue, func(o *sequence) bool { return o == q })
	case stateArriving:
		s.arriving--
	case stateRunning:
		s.running = slices.DeleteFunc(s.running, func(o *sequence) bool { return o == q })
	case stateOut:
		return
	}
	if q.computing {
		q.computing, s.computing = false, false
	}
	s.pool.release(q.blocks)
	q.blocks = nil
	q.state = stateOut
	select { // an admission nobody waits for any more
	case <-q.ready:
	default:
	}
}

// requeueLocked puts q at the head of the queue, to be computed here.
func (s *scheduler) requeueLocked(q *sequence) {
	q.state, q.remote = stateWaiting, false
	s.queue = slices.Insert(s.queue, 0, q)
}

// sleep waits for d or until ctx ends, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// content returns the identity of the prompt that was last written to the last
// of the blocks ids, or of nothing if there is no such block.
func (s *scheduler) content(ids []int) uint64 {
	if len(ids) == 0 {
		return firstHash
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.pool.content(ids[len(ids)-1])
	if !ok {
		return mix(uint64(ids[len(ids)-1]))
	}
	return id
}

// capacity returns how many tokens fit at all.
func (s *scheduler) capacity() int { return len(s.pool.blocks) * s.pool.size }
