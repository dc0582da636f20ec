package policy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pdrouter/workers"
)

// listed returns the candidates of a role.
func listed(x *workers.Explanation, role workers.Role) (of []workers.Candidate) {
	for _, c := range x.Candidates {
		if c.Worker.Role == role {
			of = append(of, c)
		}
	}
	return of
}

// Every policy explains both legs of its choice, and lists the workers chosen.
func TestEveryPolicyExplains(t *testing.T) {
	for _, prefill := range Names() {
		for _, decode := range Names() {
			c, _ := New(prefill, decode, DefaultConfig())
			pools := fleet(12, 3)
			x := &workers.Explanation{}
			need := workers.Need{Prompt: promptOf(chainAt(1, 0, 20)), At: time.Unix(1e9, 0), Explain: x}
			choice := c.Choose(need, pools)
			if x.Reason == "" || x.DecodeReason == "" {
				t.Errorf("%s and %s explain nothing: %+v", prefill, decode, x)
			}
			p, d := listed(x, workers.Prefill), listed(x, workers.Decode)
			if len(p) != 8 || len(d) != 3 || x.Unlisted != 4 {
				t.Errorf("%s and %s list %d prefill and %d decode workers, and leave out %d", prefill, decode, len(p), len(d), x.Unlisted)
			}
			there := false
			for _, c := range x.Candidates {
				there = there || c.Worker == pools[0].Prefill[choice.Prefill].Worker
				if compared := x.Units[c.Worker.Role] != ""; compared == math.IsNaN(c.Cost) {
					t.Errorf("%s and %s: a cost of %v %q", prefill, decode, c.Cost, x.Units[c.Worker.Role])
				}
			}
			if !there {
				t.Errorf("%s and %s do not list the worker that was chosen", prefill, decode)
			}
		}
	}
}

// Of nearly equal workers many cost less than the one chosen; it is listed all
// the same, with its own figures.
func TestTheChosenOneIsListed(t *testing.T) {
	a := newAsker(60, 60)
	for range 200 {
		x := &workers.Explanation{}
		need := a.need(chainAt(7, 0, 1))
		need.Explain = x
		c := a.lease(a.c.Choose(need, a.pools))
		for role, w := range [...]*workers.Worker{a.pools[0].Prefill[c.Prefill].Worker, a.pools[0].Decode[c.Decode].Worker} {
			there := false
			for _, o := range listed(x, workers.Role(role)) {
				there = there || o.Worker == w && !math.IsNaN(o.Cost)
			}
			if !there || len(x.Candidates) > workers.MostCandidates {
				t.Fatalf("of %d candidates none is %s", len(x.Candidates), w.URL)
			}
		}
	}
}

// A request that is kept explains nothing; when it is granted, only that choice.
func TestAKeptRequestExplainsTheChoiceThatIsGranted(t *testing.T) {
	a := learnt(2)
	busy := []*workers.Waiter{a.waiter(chainAt(1, 0, 200)), a.waiter(chainAt(2, 0, 200))}
	if granted, _, _ := a.next(busy); len(granted) != 2 {
		t.Fatalf("%d of 2 were granted on idle workers", len(granted))
	}
	x := &workers.Explanation{}
	kept := a.waiter(chainAt(3, 0, 30))
	kept.Need.Explain = x
	for range 50 {
		a.now = a.now.Add(time.Millisecond)
		if _, left, _ := a.next([]*workers.Waiter{kept}); len(left) != 1 || len(x.Candidates) != 0 {
			t.Fatalf("%d are kept, with %d candidates", len(left), len(x.Candidates))
		}
	}
	a.now = a.now.Add(time.Hour)
	if granted, _, _ := a.next([]*workers.Waiter{kept}); len(granted) != 1 || len(listed(x, workers.Prefill)) != 2 {
		t.Errorf("%d were granted, explained by %+v", len(granted), x.Candidates)
	}
}

func TestExplainingDoesNotAllocate(t *testing.T) {
	d := newDecider(8, BlockBytes)
	d.explain = &workers.Explanation{}
	prompt := text(1, 8<<10, 32<<10)
	d.decide(prompt)
	if n := testing.AllocsPerRun(100, func() { d.decide(prompt) }); n != 0 {
		t.Errorf("an explained decision makes %v allocations, want 0", n)
	}
}

func BenchmarkExplained(b *testing.B) {
	for _, n := range []int{4, 8, 128} {
		for _, explains := range []bool{false, true} {
			d := newDecider(n, BlockBytes)
			name := "plain"
			if explains {
				d.explain, name = &workers.Explanation{}, "explained"
			}
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) { benchmarkDecision(b, d) })
		}
	}
}
