package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pdrouter/workers"
)

// learnt returns an asker whose policy knows how fast its workers are: 30 ms
// for a leg, and 10 ms for a block.
func learnt(prefills int) *asker {
	a := newAsker(prefills, 1)
	for i := range 40 {
		chain := chainAt(1000+i, 0, 1+i)
		c := a.ask(chain)
		c.Expect.Work = 30*time.Millisecond + time.Duration(len(chain))*10*time.Millisecond
		a.end(c, chain)
	}
	return a
}

func (a *asker) waiter(chain []uint64) *workers.Waiter {
	return &workers.Waiter{Need: a.need(chain), Since: a.now}
}

// next grants what is granted now, and returns what goes on waiting.
func (a *asker) next(waiting []*workers.Waiter) (granted []*workers.Waiter, left []*workers.Waiter, wake time.Time) {
	left = append(left, waiting...)
	for len(left) > 0 {
		var g workers.Grant
		if g, wake = a.c.Next(a.now, left, a.pools); g.Waiter < 0 {
			return granted, left, wake
		}
		a.lease(g.Choice)
		a.open, a.chains = append(a.open, g.Choice), append(a.chains, left[g.Waiter].Need.Prompt.Chain)
		granted = append(granted, left[g.Waiter])
		left = append(left[:g.Waiter], left[g.Waiter+1:]...)
	}
	return granted, left, time.Time{}
}

// endOpen ends what next granted, one after the other.
func (a *asker) endOpen() {
	for i, c := range a.open {
		a.end(c, a.chains[i])
	}
	a.open, a.chains = nil, nil
}

func TestNextGrantsTheShortestFirst(t *testing.T) {
	a := learnt(1)
	long, short, other := a.waiter(chainAt(1, 0, 200)), a.waiter(chainAt(2, 0, 30)), a.waiter(chainAt(3, 0, 35))
	granted, left, wake := a.next([]*workers.Waiter{long, short, other})
	if len(granted) != 1 || granted[0] != short || len(left) != 2 {
		t.Fatalf("%d requests were granted at once, want the shortest only", len(granted))
	}
	// The worker has 330 ms to do: it gets its next 200 ms before the end.
	if got := wake.Sub(a.now).Round(time.Millisecond); got != 130*time.Millisecond {
		t.Errorf("Next wants to be called again after %v, want 130 ms", got)
	}
	a.now = wake
	if granted, left, _ = a.next(left); len(granted) != 1 || granted[0] != other {
		t.Errorf("%d requests were granted as the worker ran dry, want the shorter one", len(granted))
	}
	if len(left) != 1 || left[0] != long {
		t.Errorf("%d requests are left, want the longest", len(left))
	}
}

func TestNextFillsIdleWorkers(t *testing.T) {
	a := learnt(3)
	var waiting []*workers.Waiter
	for i := range 5 {
		waiting = append(waiting, a.waiter(chainAt(i+1, 0, 50)))
	}
	granted, left, _ := a.next(waiting)
	if len(granted) != 3 || len(left) != 2 {
		t.Errorf("%d of 5 requests were granted, want one for each of 3 workers", len(granted))
	}
	for i, l := range a.pools[0].Prefill {
		if l.InFlight != 1 {
			t.Errorf("worker %d has %d legs, want 1", i, l.InFlight)
		}
	}
}

// TestNextWaitsForTheWorkerWithTheBlocks: a request is held for the worker
// that has its prompt though another is idle, if it is there sooner so.
func TestNextWaitsForTheWorkerWithTheBlocks(t *testing.T) {
	for _, tt := range []struct {
		name string
		busy int // blocks that the worker with the prompt has to compute before
		want int // requests granted at once
	}{{"soon free", 30, 0}, {"long busy", 1500, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			a := learnt(2)
			chain := chainAt(1, 0, 300)
			first := a.ask(chain)
			a.end(first, chain)
			whole := a.pools[0].Prefill
			a.pools[0].Prefill = whole[first.Prefill : first.Prefill+1]
			a.ask(chainAt(2, 0, tt.busy))
			a.pools[0].Prefill = whole
			if granted, _, _ := a.next([]*workers.Waiter{a.waiter(chain)}); len(granted) != tt.want {
				t.Errorf("%d requests were granted, want %d", len(granted), tt.want)
			}
		})
	}
}

// TestNextPlansAhead: of many requests for the worker that has their beginning
// as many wait as it can soon take; the next goes to the one that is idle.
func TestNextPlansAhead(t *testing.T) {
	a := learnt(2)
	chain := chainAt(1, 300, 300)
	first := a.ask(chain)
	a.end(first, chain)
	whole := a.pools[0].Prefill
	a.pools[0].Prefill = whole[first.Prefill : first.Prefill+1]
	a.ask(chainAt(900, 0, 30))
	a.pools[0].Prefill = whole
	var waiting []*workers.Waiter
	for i := range 14 {
		waiting = append(waiting, a.waiter(chainAt(i+2, 300, 350)))
	}
	if granted, _, _ := a.next(waiting[:3]); len(granted) != 0 {
		t.Errorf("%d of 3 requests were sent away from their blocks", len(granted))
	}
	if granted, _, _ := a.next(waiting); len(granted) != 1 || whole[1-first.Prefill].InFlight != 1 {
		t.Errorf("%d of 14 requests were granted, want one on the idle worker", len(granted))
	}
}

func TestNextHoldsNobodyForLong(t *testing.T) {
	a := learnt(1)
	a.ask(chainAt(1, 0, 2000)) // 20 s
	w := a.waiter(chainAt(2, 0, 100))
	granted, _, wake := a.next([]*workers.Waiter{w})
	if hold := DefaultConfig().Hold; len(granted) != 0 || wake.Sub(a.now) != hold {
		t.Fatalf("%d requests were granted, Next wants to be called again after %v, want %v", len(granted), wake.Sub(a.now), hold)
	}
	a.now = wake
	if granted, _, _ = a.next([]*workers.Waiter{w}); len(granted) != 1 {
		t.Error("a request that was held for long enough is held on")
	}
}

// TestNextAges: short ones that keep coming do not starve a long one.
func TestNextAges(t *testing.T) {
	a := learnt(1)
	a.c.cfg.Hold = time.Hour
	long := a.waiter(chainAt(1, 0, 100))
	waiting := []*workers.Waiter{long}
	for i := range 40 {
		waiting = append(waiting, a.waiter(chainAt(i+2, 0, 20)))
		var granted []*workers.Waiter
		granted, waiting, _ = a.next(waiting)
		if slices.Contains(granted, long) {
			if i == 0 {
				t.Error("the long one went first")
			}
			return
		}
		a.endOpen()
	}
	t.Error("a request of 1 s was not granted before 40 of 0.2 s that came later")
}

func TestNextGrantsAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func() *asker
	}{
		{"if it must not hold", func() *asker { a := learnt(1); a.c.cfg.Hold = 0; return a }},
		{"as long as no speed is known", func() *asker { return newAsker(1, 1) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := tt.make()
			first, second := a.waiter(chainAt(1, 0, 200)), a.waiter(chainAt(2, 0, 20))
			if granted, _, _ := a.next([]*workers.Waiter{first, second}); len(granted) != 2 || granted[0] != first {
				t.Errorf("%d requests were granted, want both as they came", len(granted))
			}
		})
	}
}

// TestNextLeavesRoomForBatches: an engine that computes as many short prompts at
// a time as it has gets many, though they wait here.
func TestNextLeavesRoomForBatches(t *testing.T) {
	const (
		requests = 2000
		batch    = 64
		step     = 100 * time.Millisecond
	)
	a := newAsker(1, 1)
	for i := range 40 { // one by one, each takes a step
		chain := chainAt(10_000+i, 0, 2)
		c := a.ask(chain)
		c.Expect.Work = step
		a.end(c, chain)
	}
	var waiting []*workers.Waiter
	for i := range requests {
		waiting = append(waiting, a.waiter(chainAt(i+1, 0, 2)))
	}
	steps := 0
	for done := 0; done < requests; steps++ {
		_, waiting, _ = a.next(waiting)
		n := min(len(a.open), batch)
		a.now = a.now.Add(step)
		for i := range n {
			c := a.open[i]
			c.Expect.Work = 0 // they end together
			a.end(c, a.chains[i])
		}
		a.open, a.chains = a.open[n:], a.chains[n:]
		done += n
	}
	if least := (requests + batch - 1) / batch; steps > 2*least { // it begins to learn with 1 prompt for each step
		t.Errorf("the engine took %d steps for %d prompts, want at most twice %d", steps, requests, least)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	a := learnt(4)
	var waiting []*workers.Waiter
	for i := range 20 {
		w := a.waiter(chainAt(i+1, 0, 50))
		w.Need.Matches = new(workers.Matches)
		a.c.Look(w.Need.Prompt, w.Need.Matches)
		waiting = append(waiting, w)
	}
	_, waiting, _ = a.next(waiting)
	if n := testing.AllocsPerRun(100, func() { a.c.Next(a.now, waiting, a.pools) }); n != 0 {
		t.Errorf("Next makes %v allocations, want 0", n)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, n := range []int{1, 16, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := learnt(8)
			for i := range 8 {
				a.ask(chainAt(i+5000, 0, 100))
			}
			var waiting []*workers.Waiter
			for i := range n {
				w := a.waiter(chainAt(i+1, 0, 64))
				w.Need.Matches = new(workers.Matches)
				a.c.Look(w.Need.Prompt, w.Need.Matches)
				waiting = append(waiting, w)
			}
			for b.Loop() {
				if g, _ := a.c.Next(a.now, waiting, a.pools); g.Waiter >= 0 {
					b.Fatal("a request was granted though all workers are busy")
				}
			}
		})
	}
}
