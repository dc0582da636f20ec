package policy

import (
	"testing"
	"time"

	"pdrouter/workers"
)

// Each choice for a leg is counted by why it fell so.
func TestChoicesAreCounted(t *testing.T) {
	at := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		needs []workers.Need
		busy  bool // the owner of the prompt has too much to do
		want  map[Branch]uint64
	}{
		"consistent_hashing": {[]workers.Need{{Key: 5}, {Sticky: 7, Named: true}, {}}, false, map[Branch]uint64{ByKey: 2, WithoutKey: 1}},
		"prefix_hash":        {[]workers.Need{{Key: 5}, {Key: 5}, {}}, false, map[Branch]uint64{RingOwner: 2, WithoutPrompt: 1}},
		"manual":             {[]workers.Need{{Sticky: 7, Named: true}, {Sticky: 7, Named: true}, {Key: 5}}, false, map[Branch]uint64{KeyNew: 1, KeyThere: 1, NoKey: 1}},
		"prefix_hash, busy":  {[]workers.Need{{Key: 5}}, true, map[Branch]uint64{LoadWalk: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Branches, cfg.BalanceBelow = new(Branches), 0
			policy := name
			if tt.busy {
				policy = "prefix_hash"
			}
			p, _ := leg(policy, cfg, &dice{})
			loads := workersOf(4)
			if tt.busy {
				loads[p.Pick(&tt.needs[0], loads, partners{})].InFlight = 100
				*cfg.Branches = Branches{}
			}
			for i := range tt.needs {
				tt.needs[i].At = at
				p.Pick(&tt.needs[i], loads, partners{})
			}
			for b := range branches {
				if got := cfg.Branches.Count(b); got != tt.want[b] {
					t.Errorf("branch %d was counted %d times, want %d", b, got, tt.want[b])
				}
			}
			if keys := cfg.Branches.Keys(); name == "manual" && keys != 1 {
				t.Errorf("%d keys are remembered, want 1", keys)
			}
		})
	}
}

// workersOf returns n workers that have nothing to do.
func workersOf(n int) []*workers.Load {
	loads := make([]*workers.Load, n)
	for i := range loads {
		loads[i] = &workers.Load{Worker: &workers.Worker{Spec: workers.Spec{URL: "http://w" + string(rune('0'+i))}}, Weight: 1}
	}
	return loads
}
