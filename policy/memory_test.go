package policy

import (
	"sync"
	"testing"
	"time"

	"pdrouter/workers"
)

// TestCacheAwareLearnsWhatIsKept: an engine that keeps nothing is believed to
// hold next to nothing after a while, and is found out when it does.
func TestCacheAwareLearnsWhatIsKept(t *testing.T) {
	a := newAsker(1, 1)
	chain := chainAt(1, 0, 200)
	for range 300 {
		a.endWith(a.ask(chain), chain, 0)
	}
	known, _ := a.c.Known(a.now)
	if k := known[0]; k.Keeps > 64 {
		t.Errorf("after 300 prompts of which nothing was cached: %+v", k)
	}
	for range 300 {
		a.endWith(a.ask(chain), chain, 200)
	}
	known, _ = a.c.Known(a.now)
	if k := known[0]; k.Blocks != 200 {
		t.Errorf("after 300 prompts of which all was cached: %+v", k)
	}
}

// TestCacheAwareTellsUnknownFromNothing: an engine that does not say what it
// had cached is believed, one that says 0 is not.
func TestCacheAwareTellsUnknownFromNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cached int
		kept   bool
	}{{"not said", -1, true}, {"null is not said", -4, true}, {"nothing", 0, false}} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAsker(1, 1)
			chain := chainAt(1, 0, 200)
			for range 60 {
				a.endWith(a.ask(chain), chain, tt.cached)
			}
			known, _ := a.c.Known(a.now)
			if kept := known[0].Share > 0.9; kept != tt.kept {
				t.Errorf("%+v, want all believed %t", known[0], tt.kept)
			}
		})
	}
}

// TestCacheAwareSeesWhatIsNotSaid: an engine that says nothing of its cache is
// found out by the time that it takes.
func TestCacheAwareSeesWhatIsNotSaid(t *testing.T) {
	a, last := newAsker(1, 1), 0
	for i := range 200 {
		chain := chainAt(i%20+1, 0, 100+10*(i%20))
		c := a.ask(chain)
		believed := c.Expect.Work
		last = c.Expect.Blocks
		c.Expect.Work = 30*time.Millisecond + time.Duration(len(chain))*10*time.Millisecond // all of it
		a.now = a.now.Add(c.Expect.Work)
		a.pools[0].Prefill[0].InFlight--
		a.pools[0].Decode[0].InFlight--
		c.Expect.Work = believed
		a.c.Ended(0, workers.Prefilled{At: a.now, Prompt: promptOf(chain), Expect: c.Expect, OK: true, Tokens: -1, Cached: -1})
	}
	if last > 0 {
		t.Errorf("%d blocks of a prompt are believed to be held by an engine that always computes all", last)
	}
}

// TestPromisedBlocksAreNotMissed: blocks that a leg is still to compute are not
// evicted if a leg which was sent meanwhile does not find them.
func TestPromisedBlocksAreNotMissed(t *testing.T) {
	chain, other := chainAt(1, 0, 50), chainAt(2, 0, 50)
	for _, tt := range []struct {
		name string
		sent func(a *asker) workers.Choice // the leg that finds nothing
		less bool
	}{
		{"computed before", func(a *asker) workers.Choice {
			a.end(a.ask(chain), chain)
			return a.ask(chain)
		}, true},
		{"being computed", func(a *asker) workers.Choice {
			a.ask(chain)
			return a.ask(chain)
		}, false},
		{"being computed, behind others", func(a *asker) workers.Choice {
			a.ask(chain)
			for range 60 {
				a.ask(other)
			}
			return a.ask(chain)
		}, false},
		{"computed by one of two that were sent together, which is not noted", func(a *asker) workers.Choice {
			first := a.ask(chain)
			a.ask(chain)
			a.end(first, chain)
			return a.ask(chain)
		}, false},
		{"computed before, and others are being", func(a *asker) workers.Choice {
			a.end(a.ask(chain), chain)
			a.ask(other)
			return a.ask(chain)
		}, true},
		{"computed before, but for what follows", func(a *asker) workers.Choice {
			a.end(a.ask(chain[:40]), chain[:40])
			a.ask(chain)
			return a.ask(chain)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAsker(1, 1)
			c := tt.sent(a)
			if c.Expect.Blocks != 50 {
				t.Fatalf("%d blocks are believed to be there, want 50", c.Expect.Blocks)
			}
			a.endWith(c, chain, 0)
			known, _ := a.c.Known(a.now)
			if got := known[0].Share < 1; got != tt.less {
				t.Errorf("it is believed to keep %v of its pool; want less than all: %v", known[0].Share, tt.less)
			}
		})
	}
}

// TestCacheAwareLooksAgain: what was looked up before a choice is looked up
// again if it has changed meanwhile.
func TestCacheAwareLooksAgain(t *testing.T) {
	chain := chainAt(1, 0, 50)
	for _, tt := range []struct {
		name   string
		change func(a *asker)
		want   int
	}{
		{"nothing changed", func(*asker) {}, 50},
		{"the cache was flushed", func(a *asker) { a.c.Flushed(0) }, 0},
		{"blocks were evicted", func(a *asker) { a.c.at(0).held.forget(chain, 20) }, 20},
		{"it keeps less", func(a *asker) { a.c.at(0).held.resize(30) }, 30},
		{"more was stored", func(a *asker) { a.c.at(0).held.forget(chain, 20); a.c.at(0).held.use(chain[:40]) }, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAsker(1, 1)
			a.end(a.ask(chain), chain)
			need := a.need(chain)
			need.Matches = new(workers.Matches)
			a.c.Look(need.Prompt, need.Matches)
			tt.change(a)
			if got := a.c.Choose(need, a.pools).Expect.Blocks; got != tt.want {
				t.Errorf("%d blocks are believed to be there, want %d", got, tt.want)
			}
		})
	}
}

func TestCacheAwareForgets(t *testing.T) {
	chain := chainAt(1, 0, 50)
	for _, tt := range []struct {
		name string
		then func(a *asker, c workers.Choice)
	}{
		{"a cache that was flushed", func(a *asker, c workers.Choice) { a.c.Flushed(c.Prefill) }},
		{"a worker that has gone", func(a *asker, c workers.Choice) { a.c.Gone(c.Prefill) }},
		{"blocks that the engine evicted", func(a *asker, c workers.Choice) { a.c.at(c.Prefill).held.forget(chain, 0) }},
		{"another worker in the same seat", func(a *asker, c workers.Choice) {
			w := *a.pools[0].Prefill[c.Prefill].Worker
			a.pools[0].Prefill[c.Prefill].Worker = &w
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAsker(1, 1)
			c := a.ask(chain)
			a.end(c, chain)
			tt.then(a, c)
			if again := a.ask(chain); again.Expect.Blocks != 0 {
				t.Errorf("%d blocks are still believed to be there", again.Expect.Blocks)
			}
		})
	}
}

// TestCacheAwareMemoryIsBounded is BUG-078 and BUG-079: long prompts that never
// come again, on workers that come and go.
func TestCacheAwareMemoryIsBounded(t *testing.T) {
	a := newAsker(2, 2)
	a.c.cfg.MaxBlocks = 4000
	for i := range 500 {
		chain := chainAt(i+1, 0, 100)
		a.end(a.ask(chain), chain)
		if i%50 == 49 {
			l := a.pools[0].Prefill[i%2]
			a.c.Gone(l.Seat)
			w := *l.Worker
			l.Worker = &w
		}
		total := 0
		for _, b := range *a.c.seats.Load() {
			if b != nil {
				n, _ := b.held.size()
				total += n
			}
		}
		if total > 4000 {
			t.Fatalf("%d blocks after %d prompts, want at most 4000", total, i+1)
		}
	}
}

// TestCacheAwareWithoutAnIndex is BUG-079: the index can be turned off. Then
// nothing is noted of any prompt, and each goes where there is least to do.
func TestCacheAwareWithoutAnIndex(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxBlocks = 0
	a := newAsker(2, 2)
	a.c = NewCacheAware(cfg)
	chain := chainAt(1, 0, 100)
	var had [2]int
	for i := range 100 { // enough for speeds, and how long blocks are, to be learnt
		for seat := range 2 {
			a.c.Reported(seat, workers.Report{KVCapacity: 100000, BlockSize: 16})
		}
		c := a.ask(chain)
		if a.end(c, chain); c.Expect.Blocks != 0 {
			t.Fatalf("%d blocks of request %d are believed to be there, want none", c.Expect.Blocks, i)
		}
		had[c.Prefill]++
	}
	if min(had[0], had[1]) < 40 {
		t.Errorf("of 100 times the same prompt the workers have had %v, want about half each", had)
	}
	known, _ := a.c.Known(a.now)
	for _, k := range known {
		if k.Blocks != 0 || k.Keeps != 0 {
			t.Errorf("%d blocks are noted of %d, want none", k.Blocks, k.Keeps)
		}
	}
	if len(known) != 4 {
		t.Errorf("%d workers are known, want 4", len(known))
	}
}

// TestCacheAwareIsUsedByMany: what may be called at any time is, while choices
// are made. It is for the race detector.
func TestCacheAwareIsUsedByMany(t *testing.T) {
	a := newAsker(4, 2)
	a.ask(chainAt(1, 0, 10))
	ended := make(chan workers.Choice, 1000)
	var others sync.WaitGroup
	for g := range 3 {
		others.Go(func() {
			var m workers.Matches
			for i := range 500 {
				p := promptOf(chainAt(i%50+1, 3, 40))
				a.c.Look(p, &m)
				switch i % 50 {
				case 10:
					a.c.Reported(g, workers.Report{KVCapacity: 5000, Running: 1, Waiting: 2})
				case 20:
					a.c.Flushed(g)
				case 30:
					a.c.Gone(g)
				case 40:
					a.c.Remember(g, a.pools[0].Prefill[g].Worker, nil)
					a.c.Overall()
					a.c.Known(time.Unix(1e9, 0))
				}
			}
		})
	}
	others.Go(func() {
		for c := range ended {
			a.c.Ended(c.Prefill, workers.Prefilled{At: time.Unix(1e9, 0), Prompt: promptOf(chainAt(1, 3, 40)), Expect: c.Expect, OK: true, Tokens: 100, Cached: 10})
		}
	})
	for i := range 1000 {
		var m workers.Matches
		need := a.need(chainAt(i%50+1, 3, 40))
		a.c.Look(need.Prompt, &m)
		need.Matches = &m
		ended <- a.c.Choose(need, a.pools)
	}
	close(ended)
	others.Wait()
	for i, b := range *a.c.seats.Load() {
		if b != nil && (b.queue.open != 0 || b.queue.work != 0) && i < 4 {
			t.Errorf("at rest worker %d has %d legs, %v of work", i, b.queue.open, b.queue.work)
		}
	}
}

// TestCacheAwareGivesASlowWorkerLess: of prompts that come at once, a worker
// that is three times as slow gets about a quarter, not half.
func TestCacheAwareGivesASlowWorkerLess(t *testing.T) {
	a := newAsker(2, 1)
	for i := range 100 {
		chain := chainAt(i+1, 0, 50+i%7)
		c := a.ask(chain)
		c.Expect.Work = time.Duration(len(chain)) * 10 * time.Millisecond
		if c.Prefill == 0 {
			c.Expect.Work *= 3
		}
		a.end(c, chain)
	}
	for i := range 16 {
		a.ask(chainAt(i+1000, 0, 50))
	}
	if slow := a.pools[0].Prefill[0].InFlight; slow < 2 || slow > 6 {
		t.Errorf("the slow worker got %d of 16 prompts, want about 4", slow)
	}
}
