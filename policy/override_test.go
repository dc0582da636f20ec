package policy

import (
	"testing"
	"time"

	"pdrouter/workers"
)

// overriding returns an asker of the policy of those names, with an override.
func overriding(t *testing.T, prefill, decode, assignment string) (workers.Chooser, *asker) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Override, cfg.Assignment = true, assignment
	chooser, ok := New(prefill, decode, cfg)
	if !ok {
		t.Fatalf("no policy %s and %s", prefill, decode)
	}
	a := newAsker(4, 3)
	a.c, _ = chooser.(*CacheAware)
	return chooser, a
}

// A routing key is above any policy on both legs, and above all load; requests
// without one go as if it were not there.
func TestOverride(t *testing.T) {
	for _, names := range [][2]string{{"round_robin", "round_robin"}, {"cache_aware", "cache_aware"}, {"cache_aware", "least_load"}, {"least_load", "cache_aware"}} {
		for _, assignment := range []string{"random", "min_load", "min_group", "delegate"} {
			t.Run(names[0]+" "+names[1]+" "+assignment, func(t *testing.T) {
				chooser, a := overriding(t, names[0], names[1], assignment)
				ask := func(i int, key uint64) workers.Choice {
					need := a.need(chainAt(i, 0, 20))
					need.Sticky, need.Named = key, true
					return a.lease(chooser.Choose(need, a.pools))
				}
				first := ask(0, 4711)
				for i := range 20 {
					if c := ask(1+i, 4711); c.Prefill != first.Prefill || c.Decode != first.Decode {
						t.Fatalf("request %d with a key went to %d and %d, the first to %d and %d", i+2, c.Prefill, c.Decode, first.Prefill, first.Decode)
					}
				}
				got := make([]int, 4)
				for i := range 30 {
					got[ask(100+i, 0).Prefill]++
				}
				for i, n := range got {
					if i != first.Prefill && n < 7 {
						t.Errorf("30 requests without a key went to %v; worker %d has the 21 with one", got, first.Prefill)
					}
				}
			})
		}
	}
}

// A new key that is delegated goes where its prompt is, and stays there.
func TestOverrideDelegates(t *testing.T) {
	_, a := overriding(t, "cache_aware", "cache_aware", "delegate")
	for i := range 8 {
		chain := chainAt(i, 0, 50)
		a.end(a.ask(chain), chain)
	}
	for i := range 8 {
		holder := a.ask(chainAt(i, 0, 50))
		a.end(holder, chainAt(i, 0, 50))
		for _, chain := range [][]uint64{chainAt(i, 0, 50), chainAt(100+i, 0, 50)} {
			need := a.need(chain)
			need.Sticky, need.Named = uint64(1+i), true
			c := a.lease(a.c.Choose(need, a.pools))
			if c.Prefill != holder.Prefill {
				t.Errorf("key %d went to worker %d, want %d, which holds its first prompt", i, c.Prefill, holder.Prefill)
			}
			a.end(c, chain)
		}
	}
}

// A request whose worker is given is not kept until another one runs dry.
func TestOverrideIsNotKept(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Override = true
	a := learnt(2)
	a.c.keyed = [2]*Manual{overrides(cfg, &dice{}, own{a.c, workers.Prefill}), overrides(cfg, &dice{}, own{a.c, workers.Decode})}
	busy := []*workers.Waiter{a.waiter(chainAt(1, 0, 200)), a.waiter(chainAt(2, 0, 200))}
	if granted, _, _ := a.next(busy); len(granted) != 2 {
		t.Fatalf("%d of 2 were granted on idle workers", len(granted))
	}
	plain, keyed := a.waiter(chainAt(3, 0, 30)), a.waiter(chainAt(4, 0, 30))
	a.now = a.now.Add(time.Millisecond)
	keyed.Need.Sticky, keyed.Need.Named = 4711, true
	granted, left, _ := a.next([]*workers.Waiter{plain, keyed})
	if len(granted) != 1 || granted[0] != keyed || len(left) != 1 {
		t.Errorf("%d were granted and %d are kept, want the one with a key at once, and the other one kept", len(granted), len(left))
	}
	x := &workers.Explanation{}
	keyed.Need.Explain = x
	if a.c.Choose(keyed.Need, a.pools); x.Reason != "routing key" {
		t.Errorf("the choice is explained by %q", x.Reason)
	}
}
