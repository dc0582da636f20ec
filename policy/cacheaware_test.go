package policy

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pdrouter/workers"
)

// fleet returns one pool of so many workers of each role.
func fleet(prefills, decodes int) []workers.Pool {
	pool := workers.Pool{Prefill: loads(make([]int, prefills)...), Decode: loads(make([]int, decodes)...)}
	for i, l := range pool.Prefill {
		l.Seat = i
	}
	for i, l := range pool.Decode {
		l.Worker.URL, l.Seat = fmt.Sprintf("http://decode-%d", i), prefills+i
	}
	return []workers.Pool{pool}
}

// text returns a prompt of n bytes; the first stem bytes are the same for all.
func text(branch, stem, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		id := uint64(i / 8)
		if i >= stem {
			id |= uint64(branch) << 32
		}
		b[i] = byte(scatter(id) >> (i % 8 * 8))
	}
	return b
}

// decider makes decisions as a router does, all of it but the registry.
type decider struct {
	c       *CacheAware
	pools   []workers.Pool
	chain   []uint64
	matches workers.Matches
	now     time.Time
	picked  uint64
}

func (d *decider) decide(prompt []byte) workers.Choice {
	seed, pieces := [1][]byte{[]byte("model")}, [1][]byte{prompt}
	d.chain = Chain(d.chain[:0], seed[:], pieces[:])
	d.now = d.now.Add(time.Millisecond)
	need := workers.Need{
		Key: KeyOf(d.chain), At: d.now, Matches: &d.matches,
		Prompt: workers.Prompt{Chain: d.chain, Bytes: len(prompt)},
	}
	d.c.Look(need.Prompt, &d.matches)
	choice := d.c.Choose(need, d.pools)
	for _, l := range [...]*workers.Load{d.pools[0].Prefill[choice.Prefill], d.pools[0].Decode[choice.Decode]} {
		d.picked++
		l.Picked = d.picked
	}
	d.c.Ended(d.pools[0].Prefill[choice.Prefill].Seat, workers.Prefilled{
		At: d.now, Prompt: need.Prompt, Expect: choice.Expect, OK: true, Tokens: len(prompt) / 4, Cached: choice.Expect.Blocks * BlockBytes / 4,
	})
	return choice
}

func newDecider(n int) *decider {
	return &decider{c: NewCacheAware(DefaultConfig()), pools: fleet(n, n), now: time.Unix(1e9, 0)}
}

func TestDecisionDoesNotAllocate(t *testing.T) {
	d, i := newDecider(8), 0
	prompts := make([][]byte, 50)
	for i := range prompts {
		prompts[i] = text(i, 8<<10, 32<<10)
	}
	for _, p := range prompts {
		d.decide(p)
	}
	if n := testing.AllocsPerRun(200, func() { d.decide(prompts[i%len(prompts)]); i++ }); n != 0 {
		t.Errorf("a decision makes %v allocations, want 0", n)
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{8, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := newDecider(n)
			prompts := make([][]byte, 500) // a conversation each: half of it is there already
			for i := range prompts {
				prompts[i] = text(i, 4<<10, 32<<10)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p := prompts[rand.IntN(len(prompts))]
				d.decide(p)
			}
		})
	}
}

func BenchmarkChain(b *testing.B) {
	prompt := [][]byte{text(1, 0, 32<<10)}
	var chain []uint64
	b.SetBytes(int64(len(prompt[0])))
	for b.Loop() {
		chain = Chain(chain[:0], nil, prompt)
	}
}

// asker asks a CacheAware for choices of prompts that are given as chains, and
// keeps the loads as the registry does.
type asker struct {
	c      *CacheAware
	pools  []workers.Pool
	now    time.Time
	picked uint64

	open   []workers.Choice // that next made
	chains [][]uint64       // of these
}

func newAsker(prefills, decodes int) *asker {
	cfg := DefaultConfig()
	return &asker{c: NewCacheAware(cfg), pools: fleet(prefills, decodes), now: time.Unix(1e9, 0)}
}

func promptOf(chain []uint64) workers.Prompt {
	return workers.Prompt{Chain: chain, Bytes: len(chain) * BlockBytes}
}

func (a *asker) need(chain []uint64) workers.Need {
	return workers.Need{Key: KeyOf(chain), Prompt: promptOf(chain), At: a.now}
}

// ask returns the choice, and counts its leases.
func (a *asker) ask(chain []uint64) workers.Choice {
	return a.lease(a.c.Choose(a.need(chain), a.pools))
}

func (a *asker) lease(c workers.Choice) workers.Choice {
	for _, l := range [...]*workers.Load{a.pools[c.Pool].Prefill[c.Prefill], a.pools[c.Pool].Decode[c.Decode]} {
		a.picked++
		l.Picked = a.picked
		l.InFlight++
	}
	return c
}

// end ends both legs of a choice as it was expected, after its work.
func (a *asker) end(c workers.Choice, chain []uint64) { a.endWith(c, chain, c.Expect.Blocks) }

func (a *asker) endWith(c workers.Choice, chain []uint64, cached int) {
	pool := &a.pools[c.Pool]
	pool.Prefill[c.Prefill].InFlight--
	pool.Decode[c.Decode].InFlight--
	a.now = a.now.Add(c.Expect.Work)
	a.c.Ended(pool.Prefill[c.Prefill].Seat, workers.Prefilled{
		At: a.now, Prompt: promptOf(chain), Expect: c.Expect, OK: true, Tokens: len(chain) * BlockBytes / 4, Cached: cached * BlockBytes / 4,
	})
}

func TestCacheAwareKeepsAPromptWhereItsBlocksAre(t *testing.T) {
	a := newAsker(4, 4)
	chain := chainAt(1, 0, 100)
	first := a.ask(chain)
	a.end(first, chain)
	for range 5 {
		again := a.ask(chain)
		if again.Prefill != first.Prefill || again.Decode != first.Decode || again.Expect.Blocks != 100 {
			t.Fatalf("the same prompt went to %+v, then to %+v", first, again)
		}
		a.end(again, chain)
	}
}

// TestCacheAwareSpreads is BUG-074: twenty different prompts at once, that
// begin with the same block, on two workers.
func TestCacheAwareSpreads(t *testing.T) {
	for _, stem := range []int{0, 1, 4} {
		a := newAsker(2, 2)
		for i := range 20 {
			a.ask(chainAt(i+1, stem, 40))
		}
		for role, ls := range [][]*workers.Load{a.pools[0].Prefill, a.pools[0].Decode} {
			if n := ls[0].InFlight; n < 9 || n > 11 {
				t.Errorf("with %d blocks in common, worker 0 of role %d got %d of 20", stem, role, n)
			}
		}
	}
}

// TestCacheAwareYieldsToLoad is BUG-075: what is cached on a worker with a long
// queue is computed again elsewhere, a new prompt goes to the idle worker.
func TestCacheAwareYieldsToLoad(t *testing.T) {
	a := newAsker(2, 1)
	known := chainAt(1, 0, 100)
	first := a.ask(known)
	a.end(first, known)
	for i := range 50 { // 50 requests queue where it is
		a.c.book(a.pools[0].Prefill[first.Prefill]).queue.push(a.now, time.Second+time.Duration(i))
	}
	if c := a.ask(known); c.Prefill == first.Prefill {
		t.Error("a prompt went behind 50 others because its blocks are there")
	}
	if c := a.ask(chainAt(2, 0, 10)); c.Prefill == first.Prefill {
		t.Error("a new prompt went to the busy worker")
	}
}

// TestCacheAwareIgnoresWhatAllShare: a worker that is new gets its part though
// all others hold the long beginning of every prompt.
func TestCacheAwareIgnoresWhatAllShare(t *testing.T) {
	a := newAsker(3, 1)
	all := a.pools[0].Prefill
	a.pools[0].Prefill = all[:2]
	for i := range 400 {
		chain := chainAt(i+1, 200, 205)
		a.end(a.ask(chain), chain)
	}
	a.pools[0].Prefill = all
	for i := range 30 {
		chain := chainAt(i+1000, 200, 205)
		if c := a.ask(chain); c.Prefill == 2 {
			return
		}
	}
	t.Error("none of 30 prompts went to the new worker")
}

// TestCacheAwareWarms: a worker that is being warmed gets about its share.
func TestCacheAwareWarms(t *testing.T) {
	a := newAsker(4, 1)
	a.pools[0].Prefill[3].Weight = 0.25
	got := [4]int{}
	for i := range 1300 {
		chain := chainAt(i+1, 1, 40)
		c := a.ask(chain)
		got[c.Prefill]++
		a.end(c, chain)
	}
	if got[3] < 70 || got[3] > 130 {
		t.Errorf("the workers got %v prompts of 1300, want about 100 for the last", got)
	}
}

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

func TestCacheAwareForgets(t *testing.T) {
	chain := chainAt(1, 0, 50)
	for _, tt := range []struct {
		name string
		then func(a *asker, c workers.Choice)
	}{
		{"a cache that was flushed", func(a *asker, c workers.Choice) { a.c.Flushed(c.Prefill) }},
		{"a worker that has gone", func(a *asker, c workers.Choice) { a.c.Gone(c.Prefill) }},
		{"blocks that the engine evicted", func(a *asker, c workers.Choice) { a.c.Evicted(c.Prefill, chain, 0) }},
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

func TestCacheAwareRestores(t *testing.T) {
	a, b := newAsker(1, 1), newAsker(1, 1)
	for i := range 20 {
		chain := chainAt(i+1, 3, 30)
		a.end(a.ask(chain), chain)
	}
	b.ask(chainAt(99, 0, 1))
	b.c.Restore(0, a.c.Snapshot(0, nil))
	if got := b.ask(chainAt(7, 3, 30)).Expect.Blocks; got != 30 {
		t.Errorf("%d of 30 blocks are known after a snapshot was restored", got)
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

func TestCacheAwareExplains(t *testing.T) {
	a := newAsker(3, 1)
	chain := chainAt(1, 0, 80)
	first := a.ask(chain)
	a.end(first, chain)
	var x workers.Explanation
	need := a.need(chain)
	need.Explain = &x
	c := a.c.Choose(need, a.pools)
	if len(x.Candidates) != 3 || x.Reason == "" {
		t.Fatalf("the explanation is %+v", x)
	}
	for i, cand := range x.Candidates {
		if chosen := x.Candidates[c.Prefill]; cand.Cost < chosen.Cost {
			t.Errorf("candidate %d costs %v, less than %v of the one chosen", i, cand.Cost, chosen.Cost)
		}
	}
	if got := x.Candidates[first.Prefill].Blocks; got != 80 {
		t.Errorf("the worker with the prompt is explained to have %d blocks, want 80", got)
	}
}

// TestCacheAwareTakesADecodeWorkerWithSpace: KV use weighs against load, and
// where space is short on all, the decode worker is chosen first.
func TestCacheAwareTakesADecodeWorkerWithSpace(t *testing.T) {
	for _, tt := range []struct {
		name string
		used [3]float64
		busy [3]int
		part int // prefill worker 0 and this one do not fit; below 0: all fit
		want int
	}{
		{"the least loaded where space is no matter", [3]float64{10, 10, 10}, [3]int{2, 0, 1}, -1, 1},
		{"not the least loaded if it is full", [3]float64{50, 99, 50}, [3]int{3, 2, 2}, -1, 2},
		{"the one with the most space where it is short", [3]float64{95, 93, 81}, [3]int{1, 0, 5}, -1, 2},
		{"and then a prefill worker that fits it", [3]float64{95, 93, 81}, [3]int{1, 0, 5}, 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAsker(2, 3)
			pool := &a.pools[0]
			for i, l := range pool.Decode {
				l.Report = &workers.Report{KVCapacity: 100_000, KVUsed: tt.used[i] * 1000}
				l.InFlight = tt.busy[i]
			}
			if tt.part >= 0 {
				pool.Part(0, tt.part)
			}
			if c := a.ask(chainAt(1, 0, 4)); c.Decode != tt.want || !pool.Fits(c.Prefill, c.Decode) {
				t.Errorf("%+v was chosen, want decode worker %d and one that fits it", c, tt.want)
			}
		})
	}
}

// TestCacheAwareCountsForeignLegs: a worker that others keep busy too gets less.
func TestCacheAwareCountsForeignLegs(t *testing.T) {
	a := newAsker(2, 1)
	for i := range 50 {
		chain := chainAt(i+1, 0, 50)
		a.end(a.ask(chain), chain)
	}
	for range 100 {
		a.c.Reported(0, workers.Report{Running: 4, Waiting: 8})
	}
	for i := range 5 {
		if c := a.ask(chainAt(i+100, 0, 50)); c.Prefill == 0 {
			t.Errorf("prompt %d went to the worker that has 12 legs of others", i)
		}
	}
}

// TestCacheAwareTakesAHint: requests of one session go together though their
// prompts have nothing in common, as long as nobody has to wait for it.
func TestCacheAwareTakesAHint(t *testing.T) {
	a := newAsker(4, 1)
	ask := func(i int) workers.Choice {
		need := a.need(chainAt(i+1, 0, 50))
		need.Sticky = 4711
		return a.lease(a.c.Choose(need, a.pools))
	}
	first := ask(0)
	a.end(first, chainAt(1, 0, 50))
	for i := range 10 {
		c := ask(i + 1)
		if c.Prefill != first.Prefill {
			t.Fatalf("request %d of a session went to worker %d, the first to %d", i+2, c.Prefill, first.Prefill)
		}
		a.end(c, chainAt(i+2, 0, 50))
	}
	for i := range 8 {
		ask(i + 20)
	}
	for i, l := range a.pools[0].Prefill {
		if l.InFlight != 2 {
			t.Errorf("worker %d got %d of 8 requests that came at once, want 2", i, l.InFlight)
		}
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
					a.c.Snapshot(g, nil)
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
