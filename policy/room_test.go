package policy

import (
	"testing"
	"time"

	"pdrouter/workers"
)

// A pool is a Space of so many bytes of prompts.
type pool int

func (p pool) Has(need *workers.Need) bool           { return need.Prompt.Bytes <= int(p) }
func (p pool) KV() (used, capacity float64, ok bool) { return 0, 0, false }

// TestChoiceHasRoom: whatever waits, only who has room for it is given it.
func TestChoiceHasRoom(t *testing.T) {
	const bytes = 20 * BlockBytes
	for name, c := range map[string]struct {
		full func(prefill, decode []*workers.Load)
		want [2]int // places; below 0: nobody is granted anything
	}{
		"a decode worker without room": {func(_, d []*workers.Load) { d[0].Space = pool(bytes - 1) }, [2]int{0, 1}},
		"a prefill worker at its bound": {func(p, _ []*workers.Load) {
			p[0].MostInFlight, p[0].InFlight = 2, 2
		}, [2]int{1, 0}},
		"no decode worker with room": {func(_, d []*workers.Load) {
			d[0].Space, d[1].Space = pool(0), pool(0)
		}, [2]int{-1, -1}},
		"no prefill worker with room": {func(p, _ []*workers.Load) {
			p[0].MostInFlight, p[0].InFlight, p[1].MostInFlight, p[1].InFlight = 1, 1, 1, 1
		}, [2]int{-1, -1}},
	} {
		for state, ask := range map[string]func(int) *asker{"learnt": learnt, "not learnt": func(n int) *asker { return newAsker(n, 2) }} {
			t.Run(name+", "+state, func(t *testing.T) {
				a := ask(2)
				a.pools = fleet(2, 2)
				p, d := a.pools[0].Prefill, a.pools[0].Decode
				for _, l := range d {
					l.Space = pool(bytes)
				}
				p[1].Picked, d[1].Picked = 9, 9 // the first are preferred
				c.full(p, d)
				w := a.waiter(chainAt(1, 0, 20))

				g, _ := a.c.Next(a.now, []*workers.Waiter{w}, a.pools)

				if (g.Waiter < 0) != (c.want[0] < 0) || g.Waiter >= 0 && (g.Prefill != c.want[0] || g.Decode != c.want[1]) {
					t.Errorf("Next grants %+v, want workers %v", g, c.want)
				}
			})
		}
	}
}

// TestNextPassesWhoHasNoRoom: a request that fits nowhere keeps nobody else back.
func TestNextPassesWhoHasNoRoom(t *testing.T) {
	a := learnt(2)
	for _, l := range a.pools[0].Decode {
		l.Space = pool(20 * BlockBytes)
	}
	large, small := a.waiter(chainAt(1, 0, 21)), a.waiter(chainAt(2, 0, 20))
	large.Since = a.now.Add(-time.Hour) // as old as may be
	granted, left, wake := a.next([]*workers.Waiter{large, small})
	if len(granted) != 1 || granted[0] != small || len(left) != 1 {
		t.Errorf("%d are granted and %d go on waiting, want the one that has room", len(granted), len(left))
	}
	if !wake.IsZero() && !wake.After(a.now) {
		t.Errorf("Next wants to be called again %v ago", a.now.Sub(wake))
	}
}

// TestNextGoesByRank: who ranks first goes first, however long its prompt.
func TestNextGoesByRank(t *testing.T) {
	a := learnt(1)
	short, long := a.waiter(chainAt(1, 0, 5)), a.waiter(chainAt(2, 0, 300))
	short.Rank = 1
	if granted, _, _ := a.next([]*workers.Waiter{long, short}); len(granted) == 0 || granted[0] != long {
		t.Error("the short prompt goes first, want the one that ranks first")
	}
	a = learnt(1)
	short, long = a.waiter(chainAt(1, 0, 5)), a.waiter(chainAt(2, 0, 300))
	short.Rank, short.Since = 1, a.now.Add(-time.Hour)
	long.Since = a.now.Add(-time.Minute)
	if granted, _, _ := a.next([]*workers.Waiter{long, short}); len(granted) == 0 || granted[0] != long {
		t.Error("the one that has waited longest goes first, want the one that ranks first")
	}
}
