package policy

import (
	"fmt"
	"slices"
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
		l.Worker.Role, l.Worker.URL, l.Seat = workers.Decode, fmt.Sprintf("http://decode-%d", i), prefills+i
	}
	return []workers.Pool{pool}
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
	return workers.Need{Key: KeyOf(chain, BlockBytes), Prompt: promptOf(chain), At: a.now}
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

func TestCacheAwareExplains(t *testing.T) {
	a := newAsker(3, 1)
	chain := chainAt(1, 0, 80)
	first := a.ask(chain)
	a.end(first, chain)
	var x workers.Explanation
	need := a.need(chain)
	need.Explain = &x
	c := a.c.Choose(need, a.pools)
	if len(listed(&x, workers.Prefill)) != 3 || x.Reason == "" {
		t.Fatalf("the explanation is %+v", x)
	}
	for i, cand := range listed(&x, workers.Prefill) {
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

// TestAHintYieldsToLoad: a request waits for the worker of its session for no
// longer than an eighth of its own work, whether it is sent at once or planned.
func TestAHintYieldsToLoad(t *testing.T) {
	for _, plan := range []bool{false, true} {
		for _, tt := range []struct {
			name    string
			backlog float64 // of the session's worker, as a share of the prompt's work
			want    bool    // that worker
		}{
			{"idle", 0, true},
			{"a little to do", 0.05, true},
			{"more than the bound", 0.2, false},
			{"as much as the prompt", 1, false},
		} {
			a := newAsker(4, 1)
			need := a.need(chainAt(1, 0, 400))
			need.Sticky, need.Named = 4711, true
			at := hint(&need, a.pools[0].Prefill, partners{})
			a.pools[0].Prefill[at].Picked = 1 // it was leased later than the others: that decides nothing
			work := a.c.work(a.c.book(a.pools[0].Prefill[at]), &need.Prompt, 0)
			a.c.book(a.pools[0].Prefill[at]).queue.push(a.now, time.Duration(tt.backlog*float64(work)))

			var got int
			if plan {
				b, _ := a.c.planOne(a.c.viewOf(&need, a.now, 0), a.pools)
				got = slices.IndexFunc(a.pools[0].Prefill, func(l *workers.Load) bool { return a.c.book(l) == b })
			} else {
				got = a.c.Choose(need, a.pools).Prefill
			}
			if (got == at) != tt.want {
				t.Errorf("planned %t, %s: the prompt went to worker %d, its session's is %d", plan, tt.name, got, at)
			}
		}
	}
}

// TestAHintIsTakenForAShortPrompt: one without a block goes by it, too.
func TestAHintIsTakenForAShortPrompt(t *testing.T) {
	a := newAsker(4, 1)
	need := workers.Need{Prompt: workers.Prompt{Bytes: BlockBytes - 1}, At: a.now, Sticky: 17}
	at := hint(&need, a.pools[0].Prefill, partners{})
	for range 5 {
		c := a.lease(a.c.Choose(need, a.pools))
		if c.Prefill != at {
			t.Fatalf("a short prompt went to worker %d, its session's is %d", c.Prefill, at)
		}
		a.end(c, nil)
		need.At = a.now
	}
}
