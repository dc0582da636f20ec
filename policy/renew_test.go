package policy

import (
	"testing"
	"time"

	"pdrouter/workers"
)

// renew returns what becomes of old.
func renew(t *testing.T, old workers.Chooser, prefill, decode string, change func(*Config)) workers.Chooser {
	t.Helper()
	cfg := DefaultConfig()
	change(&cfg)
	next, ok := Renew(old, prefill, decode, cfg)
	if !ok {
		t.Fatalf("no policy %s and %s", prefill, decode)
	}
	return next
}

// TestRenewKeepsTheIndex when only parameters change, or the policy of the other
// leg.
func TestRenewKeepsTheIndex(t *testing.T) {
	a := newAsker(3, 3)
	chain := chainAt(1, 0, 200)
	at := a.ask(chain)
	a.end(at, chain)
	for name, change := range map[string]func() workers.Chooser{
		"other parameters": func() workers.Chooser {
			return renew(t, a.c, "cache_aware", "cache_aware", func(c *Config) { c.Hold = time.Second })
		},
		"another policy of decode": func() workers.Chooser {
			return renew(t, a.c, "cache_aware", "round_robin", func(c *Config) { c.Override = true })
		},
		"none of its own for prefill, and back": func() workers.Chooser {
			c := renew(t, a.c, "random", "cache_aware", func(*Config) {})
			return renew(t, c, "cache_aware", "cache_aware", func(*Config) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if next := change(); next != workers.Chooser(a.c) {
				t.Fatalf("it is another one: %v", next)
			}
			again := a.ask(chain)
			if again.Prefill != at.Prefill || again.Expect.Blocks != 200 {
				t.Errorf("the prompt goes to %d with %d blocks, want %d with 200", again.Prefill, again.Expect.Blocks, at.Prefill)
			}
			a.end(again, chain)
		})
	}
	if next := renew(t, a.c, "random", "random", func(*Config) {}); next == workers.Chooser(a.c) {
		t.Error("cache_aware goes on though no leg has it")
	}
}

// TestRenewTakesParameters, also those by which memory is bounded.
func TestRenewTakesParameters(t *testing.T) {
	a := newAsker(1, 1)
	for i := range 100 {
		chain := chainAt(i, 0, 20)
		a.end(a.ask(chain), chain)
	}
	renew(t, a.c, "cache_aware", "least_load", func(c *Config) { c.MaxBlocks, c.Hold, c.Override = 64, 3*time.Second, true })
	for _, b := range *a.c.seats.Load() {
		if n, _ := b.held.size(); n > 64 {
			t.Errorf("%d blocks are noted of %s, want 64 at most", n, b.worker.URL)
		}
	}
	if _, is := a.c.otherDecode.(LeastLoad); !is || a.c.cfg.Hold != 3*time.Second || a.c.keyed[0] == nil {
		t.Errorf("decode is chosen by %T, requests are held for %v", a.c.otherDecode, a.c.cfg.Hold)
	}
	if a.c.mirrors.names.limit != 8 || a.c.mirrors.room != 64 {
		t.Errorf("the mirrors have room for %d and %d", a.c.mirrors.names.limit, a.c.mirrors.room)
	}
	if _, ok := Renew(a.c, "nonsense", "random", DefaultConfig()); ok {
		t.Error("there is a policy of a name that is none")
	}
}

// TestRenewKeepsKeys of manual, with and without what is above it or below.
func TestRenewKeepsKeys(t *testing.T) {
	a := newAsker(6, 6)
	cfg, counts := DefaultConfig(), &Branches{}
	cfg.Branches = counts
	manual, _ := New("manual", "manual", cfg)
	ask := func(c workers.Chooser, key uint64) workers.Choice {
		need := a.need(chainAt(int(key), 0, 3))
		need.Sticky, need.Named = key, true
		return c.Choose(need, a.pools)
	}
	var before []workers.Choice
	for key := range uint64(20) {
		before = append(before, ask(manual, key+1))
	}
	for _, names := range [][2]string{{"manual", "manual"}, {"cache_aware", "manual"}, {"random", "round_robin"}, {"cache_aware", "cache_aware"}} {
		manual = renew(t, manual, names[0], names[1], func(c *Config) { c.Override, c.Branches = true, counts })
		for key, want := range before {
			got := ask(manual, uint64(key)+1)
			if got.Prefill != want.Prefill || got.Decode != want.Decode {
				t.Fatalf("%v: key %d goes to %d and %d, want %d and %d", names, key+1, got.Prefill, got.Decode, want.Prefill, want.Decode)
			}
		}
	}
	if n := counts.Keys(); n != 40 {
		t.Errorf("%d keys are counted, want 20 for each leg", n)
	}
	m := pickersOf(manual)[0].(*Manual)
	m.expire(a.now.Add(1000 * time.Hour))
	if len(m.keys) != 0 || m.old.newer != &m.old || m.old.older != &m.old {
		t.Errorf("%d keys are left when all have expired", len(m.keys))
	}
	renew(t, manual, "cache_aware", "random", func(c *Config) { c.Branches = counts })
	if n := counts.Keys(); n != 0 {
		t.Errorf("%d keys are counted though nobody remembers any", n)
	}
}

// TestRenewKeepsRanges of bucket, which are made of 512 prompts.
func TestRenewKeepsRanges(t *testing.T) {
	old, _ := New("bucket", "bucket", DefaultConfig())
	a := newAsker(2, 2)
	for i := range 50 {
		old.Choose(a.need(chainAt(i, 0, 1+i)), a.pools)
	}
	next := renew(t, old, "bucket", "random", func(c *Config) { c.BalanceAbs = 7 })
	b, is := pickersOf(next)[0].(*Bucket)
	if !is || b.seen != 50 || len(b.edges) != 1 || b.cfg.BalanceAbs != 7 {
		t.Errorf("bucket is %+v", b)
	}
}

// TestNamesAreResized keeps those that came last.
func TestNamesAreResized(t *testing.T) {
	n := newNames(4)
	set := func(key uint64) { n.set(key, 0, 16, ending{tokens: key, depth: 16, exact: 16}) }
	knows := func(want ...uint64) {
		t.Helper()
		found := 0
		for key := range uint64(20) {
			if _, ok := n.find(key, 16); ok {
				found++
			}
		}
		for _, key := range want {
			if _, ok := n.find(key, 16); !ok {
				t.Errorf("%d is not known", key)
			}
		}
		if found != len(want) {
			t.Errorf("%d are known, want %d", found, len(want))
		}
	}
	for key := range uint64(6) {
		set(key + 1)
	}
	knows(3, 4, 5, 6)
	n.resize(2)
	knows(5, 6)
	n.resize(3)
	set(7)
	set(8)
	knows(6, 7, 8)
}
