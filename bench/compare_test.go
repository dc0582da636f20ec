package bench

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pdrouter/policy"
)

var errWrong = errors.New("wrong")

func TestPolicyOfKnowsAllNames(t *testing.T) {
	for _, name := range PolicyNames() {
		p, err := PolicyOf(name, policy.DefaultConfig(), DefaultEngine())
		if err != nil || p.Name != name || p.Make(0) == nil || p.Reference != slices.Contains(References(), name) {
			t.Errorf("PolicyOf(%q) = %+v, %v", name, p, err)
		}
	}
}

func TestInOrder(t *testing.T) {
	first := make(chan bool)
	jobs := []func() int{
		func() int { <-first; return 0 }, // the second ends before it
		func() int { close(first); return 1 },
		func() int { return 2 },
	}
	var came []int
	InOrder(jobs, func(i, n int) {
		if i != n {
			t.Errorf("job %d came to %d", i, n)
		}
		came = append(came, n)
	})
	if !slices.Equal(came, []int{0, 1, 2}) {
		t.Errorf("came in the order %v", came)
	}
}

// TestWatch: who watches a replay hears of all requests, and can end it.
func TestWatch(t *testing.T) {
	reqs, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	v, heard := Published(), 0
	v.Watch = func(came int) bool {
		if came <= heard {
			t.Fatalf("%d requests have come, after %d", came, heard)
		}
		heard = came
		return true
	}
	v.Run(reqs, policyOf(t, "round_robin").Make(0))
	if heard != len(reqs) {
		t.Errorf("heard of %d requests of %d", heard, len(reqs))
	}
	v.Watch = func(came int) bool { heard = came; return came < 100 }
	v.Run(reqs, policyOf(t, "round_robin").Make(0))
	if heard < 100 || heard > 200 {
		t.Errorf("the replay ended after %d requests, want some hundred", heard)
	}
}

// TestSmallBlocks: a trace with a quarter of the tokens in each block, on
// engines with a quarter of the speed and of the cache, is the same replay.
func TestSmallBlocks(t *testing.T) {
	reqs, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	reqs = Before(reqs, 2*time.Minute)
	small := slices.Clone(reqs)
	for i := range small {
		small[i].Block, small[i].InputLength = BlockTokens/4, (small[i].InputLength+3)/4
	}
	for _, name := range append(References(), "cache_aware") {
		v := Published()
		v.Engine.KVTokens = 400_000 // less than the prompts have
		want := v.Means(reqs, policyOf(t, name), 3)
		v.Engine.Block = BlockOf(small)
		v.Engine.KVTokens /= 4
		v.Engine.PerSecond /= 4
		p, err := PolicyOf(name, policy.DefaultConfig(), v.Engine)
		if err != nil {
			t.Fatal(err)
		}
		got := v.Means(small, p, 3)
		if !near(got.HitRatio, want.HitRatio, 0.15) {
			t.Errorf("%s: %+v, want what blocks of %d tokens come to: %+v", name, got, BlockTokens, want)
		}
	}
}

// TestRecovery: what happens at half time is seen, and only then.
func TestRecovery(t *testing.T) {
	reqs, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	v := Published()
	v.Speed = 0.5 // that there is something after it
	p := policyOf(t, "cache_aware")
	calm := v.Recovery(reqs, p, 1)
	if calm.Requests == 0 || calm.Requests > len(reqs)/2 {
		t.Fatalf("%d requests came long after half time, of %d", calm.Requests, len(reqs))
	}
	for kind, name := range []string{"dies", "is added", "is flushed"} {
		if row := v.Recovery(reqs, p, 1, UpsetKind(kind)); row == calm || row.Requests != calm.Requests {
			t.Errorf("when a worker %s: %+v, when none: %+v", name, row, calm)
		}
	}
}
