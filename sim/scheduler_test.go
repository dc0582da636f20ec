package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newScheduler(blocks, slots int, perToken time.Duration) *scheduler {
	return &scheduler{perToken: perToken, slots: slots, pool: newPool(blocks, 4, true)}
}

// tokens returns a prompt of n tokens that has nothing in common with those of
// another seed.
func tokens(seed uint32, n int) prompt {
	p := prompt{tokens: make([]uint32, n)}
	for i := range p.tokens {
		p.tokens[i] = seed<<16 + uint32(i)
	}
	return p
}

func TestAdmissionIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(8, 10, 0)
		ctx := context.Background()
		big := newSequence(tokens(1, 24), 4, false) // 6 of 8 blocks
		wide := newSequence(tokens(2, 16), 4, false)
		small := newSequence(tokens(3, 4), 4, false)
		var mu sync.Mutex
		var order []string
		enter := func(name string, q *sequence) {
			if err := s.enter(ctx, q); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
		}
		enter("big", big)
		go enter("wide", wide)
		synctest.Wait()
		go enter("small", small) // fits, but is not first
		synctest.Wait()
		if got := fmt.Sprint(order); got != "[big]" {
			t.Fatalf("admitted %s, want only big", got)
		}
		s.leave(big)
		synctest.Wait()
		if got := len(order); got != 3 {
			t.Fatalf("admitted %v", order)
		}
		s.leave(wide)
		s.leave(small)
		noneLeft(t, s)
	})
}

// noneLeft checks that a scheduler is empty and its pool whole.
func noneLeft(t *testing.T, s *scheduler) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue)+len(s.running)+s.arriving != 0 || s.computing {
		t.Errorf("left: %d queue, %d run, %d arrive, computing %v", len(s.queue), len(s.running), s.arriving, s.computing)
	}
	n, idle := 0, 0
	for b := s.pool.free.next; b != &s.pool.free; b = b.next {
		n++
		if b.cached {
			idle++
		}
		if b.refs != 0 {
			t.Errorf("block %d is free with %d users", b.id, b.refs)
		}
	}
	if n != len(s.pool.blocks) || n != s.pool.nfree || idle != s.pool.idle || idle != len(s.pool.index) {
		t.Errorf("free: %d in list, %d counted, of %d; cached: %d in list, %d counted, %d found",
			n, s.pool.nfree, len(s.pool.blocks), idle, s.pool.idle, len(s.pool.index))
	}
}

func TestPromptsAreComputedOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(100, 10, time.Millisecond)
		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var last time.Duration
		for i := range 5 {
			wg.Go(func() {
				q := newSequence(tokens(uint32(i), 20), 4, false)
				if err := s.enter(t.Context(), q); err != nil {
					t.Error(err)
				}
				if err := s.compute(t.Context(), q); err != nil {
					t.Error(err)
				}
				mu.Lock()
				last = max(last, time.Since(start))
				mu.Unlock()
				s.leave(q)
			})
		}
		wg.Wait()
		if last != 100*time.Millisecond {
			t.Errorf("5 prompts of 20 tokens took %v, want 100 ms", last)
		}
		// What is cached takes no time; the last token always does.
		again := newSequence(tokens(1, 20), 4, false)
		start = time.Now()
		_ = s.enter(t.Context(), again)
		_ = s.compute(t.Context(), again)
		if d := time.Since(start); d != 4*time.Millisecond || again.firstCached != 16 {
			t.Errorf("the same prompt again took %v with %d cached, want 4 ms and 16", d, again.firstCached)
		}
		s.leave(again)
		noneLeft(t, s)
	})
}

func TestLatestIsPreempted(t *testing.T) {
	s := newScheduler(4, 10, 0)
	ctx := context.Background()
	first, second := newSequence(tokens(1, 8), 4, false), newSequence(tokens(2, 8), 4, false)
	for _, q := range []*sequence{first, second} {
		if err := errors.Join(s.enter(ctx, q), s.compute(ctx, q)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.grow(first, 9); got != growDone {
		t.Fatalf("grow(first) = %d, want done", got)
	}
	select {
	case <-second.evicted:
	default:
		t.Fatal("second is not told that it was preempted")
	}
	if got := s.grow(second, 9); got != growPreempted {
		t.Errorf("grow(second) = %d, want preempted", got)
	}
	second.generated.Add(1)
	third := newSequence(tokens(3, 12), 4, false)
	if s.try(third) {
		t.Fatal("third has blocks, though there are none")
	}
	s.leave(first)
	if err := s.resume(ctx, second); err != nil {
		t.Fatal(err)
	}
	if third.state != stateWaiting {
		t.Error("third was admitted before second, which had been preempted")
	}
	s.leave(third)
	if s.counts.preemptions != 1 {
		t.Errorf("%d preemptions, want 1", s.counts.preemptions)
	}
	s.leave(second)
	noneLeft(t, s)
}

func TestAloneItTakesAllAndStops(t *testing.T) {
	s := newScheduler(4, 10, 0)
	q := newSequence(tokens(1, 8), 4, false)
	if err := errors.Join(s.enter(t.Context(), q), s.compute(t.Context(), q)); err != nil {
		t.Fatal(err)
	}
	if got := s.grow(q, 16); got != growDone {
		t.Errorf("grow to all = %d, want done", got)
	}
	if got := s.grow(q, 17); got != growFull {
		t.Errorf("grow beyond = %d, want full", got)
	}
	s.leave(q)
	noneLeft(t, s)
}

// TestSchedulerKeepsItsBooks runs random sequences, many of which give up.
func TestSchedulerKeepsItsBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(20, 6, time.Millisecond)
		dice := rand.New(rand.NewPCG(1, 2))
		var wg sync.WaitGroup
		for range 300 {
			p := tokens(uint32(dice.IntN(20)), 1+dice.IntN(30))
			patience := time.Duration(dice.IntN(500)) * time.Millisecond
			arrival := time.Duration(dice.IntN(3000)) * time.Millisecond
			answer, remote, hold := dice.IntN(30), dice.IntN(3) == 0, dice.IntN(5) == 0
			wg.Go(func() {
				time.Sleep(arrival)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				liveOut(ctx, s, newSequence(p, 4, remote), answer, hold)
			})
		}
		wg.Wait()
		if s.counts.preemptions == 0 {
			t.Error("nothing was preempted: the test proves little")
		}
		noneLeft(t, s)
	})
}

// liveOut is a sequence's life in the scheduler.
func liveOut(ctx context.Context, s *scheduler, q *sequence, answer int, hold bool) {
	remote := q.remote
	if s.enter(ctx, q) != nil {
		return
	}
	if remote {
		s.start(q)
	} else if s.compute(ctx, q) != nil {
		return
	}
	for range answer {
		if s.grow(q, q.tokens()) == growPreempted && s.resume(ctx, q) != nil {
			return
		}
		if sleep(ctx, time.Millisecond) != nil {
			s.leave(q)
			return
		}
		q.generated.Add(1)
	}
	if hold {
		blocks := s.hold(q)
		_ = sleep(ctx, time.Second)
		s.freeHeld(blocks)
		return
	}
	s.leave(q)
}

// Each token of a preempted answer still takes its time, and none comes in a
// burst afterwards.
func TestPaceAfterPreemption(t *testing.T) {
	const per = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{BlockSize: 4, DecodePerToken: per}.withDefaults()
		e := &Engine{cfg: cfg, sched: newScheduler(8, 10, 0)}
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				r := &request{path: pathCompletions, maxTokens: 16, ignoreEOS: true, prompts: []prompt{tokens(uint32(i), 8)}}
				l := e.newLeg(r, 0, false)
				if err := errors.Join(e.sched.enter(t.Context(), l.q), e.sched.compute(t.Context(), l.q)); err != nil {
					t.Error(err)
				}
				l.answer(l.q.id)
				last := time.Now()
				l.emit = func(string) error {
					if d := time.Since(last); d < per {
						t.Errorf("leg %d: token %d after %v", i, l.count, d)
					}
					last = time.Now()
					return nil
				}
				if err := l.generate(t.Context()); err != nil || l.count != 16 {
					t.Errorf("leg %d made %d tokens: %v", i, l.count, err)
				}
				e.sched.leave(l.q)
			})
		}
		wg.Wait()
		if e.sched.counts.preemptions == 0 {
			t.Error("nothing was preempted: the test proves little")
		}
		noneLeft(t, e.sched)
	})
}

func TestDecodePreempts(t *testing.T) {
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, func(c *Config) {
			c.BlockSize, c.KVTokens, c.DecodePerToken = 16, 16*16, 500*time.Microsecond
			c.WaitingTimeout, c.BootstrapTimeout = time.Minute, time.Minute
		})
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				b := body{"prompt": fmt.Sprint(i, strings.Repeat("y", 60)), "max_tokens": 80, "ignore_eos": true, "stream": i%2 == 0}
				var got answer
				if dialect == SGLang {
					_, got = p.sglang(pathCompletions, b, uint64(i))
				} else {
					_, got = p.vllm(pathCompletions, b)
				}
				p.mustSay(t, got, pathCompletions, b)
			})
		}
		wg.Wait()
		st := p.decode.Stats()
		if st.Preemptions == 0 || st.ComputedTokens == 0 {
			t.Errorf("%s: %d preemptions, %d tokens computed again, want some", dialect, st.Preemptions, st.ComputedTokens)
		}
		page := get(p.decode, "/metrics").must(t).body
		name := map[string]string{SGLang: "sglang:num_retracted_requests_total", VLLMNixl: "vllm:num_preemptions_total"}[dialect]
		if !strings.Contains(page, name+"{") || strings.Contains(page, name+`{engine="0",model_name="sim-model"} 0.0`) {
			t.Errorf("%s's metrics do not count preemptions", dialect)
		}
		p.clean()
		p.atRest()
	}
}
