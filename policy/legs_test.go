package policy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/workers"
)

// TestPoliciesKeepTheContract drives every policy, and every pair of two, with
// random fleets: the pair fits, and no place is beyond the pool.
func TestPoliciesKeepTheContract(t *testing.T) {
	d := dice{state: 7}
	for _, prefill := range Names() {
		for _, decode := range Names() {
			c, ok := New(prefill, decode, DefaultConfig())
			if !ok {
				t.Fatalf("New(%s, %s) made nothing", prefill, decode)
			}
			pools := fleet(5, 4)
			picked := uint64(0)
			for i := range 200 {
				part := pools[0]
				part.Prefill, part.Decode = slices.Clone(part.Prefill), slices.Clone(part.Decode)
				for range d.below(4) {
					part.Prefill = slices.Delete(part.Prefill, 0, 1)
				}
				if len(part.Prefill) > 1 && len(part.Decode) > 1 {
					part.Part(d.below(len(part.Prefill)), d.below(len(part.Decode)))
				}
				chain := chainAt(d.below(20), 2, 1+d.below(30))
				need := workers.Need{Key: KeyOf(chain, BlockBytes), Prompt: promptOf(chain), Sticky: uint64(d.below(10)), At: time.Unix(int64(i), 0)}
				got := c.Choose(need, []workers.Pool{part})
				if got.Pool != 0 || !part.Fits(got.Prefill, got.Decode) {
					t.Fatalf("%s, %s chose %+v, which does not fit", prefill, decode, got)
				}
				for _, l := range [...]*workers.Load{part.Prefill[got.Prefill], part.Decode[got.Decode]} {
					picked++
					l.InFlight, l.Picked = l.InFlight+1, picked
				}
			}
		}
	}
}

func TestNewDoesNotKnow(t *testing.T) {
	if _, ok := New("cache_aware", "best", DefaultConfig()); ok {
		t.Error("New made a policy that does not exist")
	}
	if _, ok := Lookup(""); ok {
		t.Error("Lookup found a policy without a name")
	}
}

// picks returns how often each worker is taken in n picks.
func picks(p Picker, need workers.Need, loads []*workers.Load, n int) []int {
	got := make([]int, len(loads))
	for i := range n {
		at := p.Pick(&need, loads, partners{})
		loads[at].Picked = uint64(1000 + i)
		got[at]++
	}
	return got
}

func TestRoundRobinTakesTurns(t *testing.T) {
	if got := picks(RoundRobin{}, workers.Need{}, loads(9, 0, 0), 30); !slices.Equal(got, []int{10, 10, 10}) {
		t.Errorf("picks = %v, want 10 of each", got)
	}
}

func TestRandomTakesAll(t *testing.T) {
	for i, n := range picks(Random{&dice{}}, workers.Need{}, loads(0, 9, 0, 0), 4000) {
		if n < 900 || n > 1100 {
			t.Errorf("worker %d was taken %d times of 4000", i, n)
		}
	}
}

func TestFirstTakesTheFirst(t *testing.T) {
	if got := picks(First{}, workers.Need{}, loads(9, 0), 5); got[0] != 5 {
		t.Errorf("picks = %v, want the first", got)
	}
}

// reports gives workers reports of KV use in percent (below 0: none) and of
// requests that wait.
func reports(ls []*workers.Load, use, waits []float64) []*workers.Load {
	for i, l := range ls {
		if use[i] < 0 {
			continue
		}
		l.Report = &workers.Report{KVCapacity: 100, KVUsed: use[i], Running: math.NaN(), Waiting: waits[i]}
	}
	return ls
}

func TestLeastLoad(t *testing.T) {
	full := DefaultConfig()
	full.MaxWaiting = 5
	tests := []struct {
		name  string
		cfg   Config
		loads []*workers.Load
		want  int
	}{
		{"the fewest requests", DefaultConfig(), loads(3, 1, 2), 1},
		{"a full KV cache weighs against it", DefaultConfig(), reports(loads(3, 1, 2), []float64{50, 99, 50}, make([]float64, 3)), 2},
		{"no report is no KV cache", DefaultConfig(), reports(loads(3, 1, 2), []float64{50, -1, 50}, make([]float64, 3)), 1},
		{"one whose engine has too many waiting is left out", full, reports(loads(3, 1, 2), []float64{0, 0, 0}, []float64{0, 5, 0}), 2},
		{"unless all have", full, reports(loads(3, 1, 2), []float64{0, 0, 0}, []float64{5, 5, 5}), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (LeastLoad{tt.cfg}).Pick(&workers.Need{}, tt.loads, partners{}); got != tt.want {
				t.Errorf("Pick = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestPowerOfTwo(t *testing.T) {
	metric := func(m string) Config { c := DefaultConfig(); c.Metric = m; return c }
	for _, tt := range []struct {
		name  string
		cfg   Config
		loads []*workers.Load
		never int // the worker that loses every comparison
	}{
		{"the one with more requests loses", metric("least_requests"), reports(loads(1, 5, 2), []float64{99, 0, 50}, make([]float64, 3)), 1},
		{"the one with more KV in use loses", metric("requests"), reports(loads(1, 5, 2), []float64{99, 0, 50}, make([]float64, 3)), 0},
		{"KV that one does not tell is not compared", metric("requests"), reports(loads(1, 5, 2), []float64{99, -1, -1}, make([]float64, 3)), 1},
		{"the one with the longest wait loses", metric("expected_wait"), reports(loads(3, 2, 2), []float64{50, 50, 50}, make([]float64, 3)), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := picks(PowerOfTwo{tt.cfg, &dice{state: 5}}, workers.Need{}, tt.loads, 300)
			if got[tt.never] != 0 {
				t.Errorf("picks = %v, want none of worker %d", got, tt.never)
			}
		})
	}
	if got := picks(PowerOfTwo{metric("requests"), &dice{}}, workers.Need{}, loads(3), 4); got[0] != 4 {
		t.Errorf("picks of a single worker = %v", got)
	}
}

func TestConsistentHashing(t *testing.T) {
	p := ConsistentHashing{factor: 1.25}
	owner := picks(p, workers.Need{Sticky: 11, Named: true}, loads(0, 0, 0, 0), 50)
	if most := slices.Max(owner); most != 50 {
		t.Errorf("one key went to %v, want one worker", owner)
	}
	at := slices.Index(owner, 50)
	if got := p.Pick(&workers.Need{Sticky: 11, Named: true, Key: 99}, loads(0, 0, 0, 0), partners{}); got != at {
		t.Errorf("the routing key counts less than the prompt")
	}
	busy := loads(0, 0, 0, 0)
	busy[at].InFlight = 9
	if got := p.Pick(&workers.Need{Sticky: 11, Named: true}, busy, partners{}); got == at {
		t.Error("a worker above the bound was taken for its key")
	}
	user := workers.Need{Sticky: 11, Key: 99}
	if got, want := p.Pick(&user, loads(0, 0, 0, 0), partners{}), p.Pick(&workers.Need{Key: 99}, loads(0, 0, 0, 0), partners{}); got != want {
		t.Errorf("a user's prompt went to %d, want %d, where it goes for anybody", got, want)
	}
	if user.Key = 0; p.Pick(&user, loads(0, 0, 0, 0), partners{}) != at {
		t.Error("a user without a prompt to hash has no worker")
	}
	if got := p.Pick(&workers.Need{}, loads(3, 1, 2), partners{}); got != 1 {
		t.Errorf("a request without key or prompt went to %d, want the least loaded", got)
	}
}

func TestBucket(t *testing.T) {
	p := &Bucket{cfg: DefaultConfig()}
	ls := loads(0, 0, 0)
	pick := func(bytes int, at int64) int {
		return p.Pick(&workers.Need{Prompt: workers.Prompt{Bytes: bytes}, At: time.Unix(at, 0)}, ls, partners{})
	}
	work := [3]int{}
	for i := range 3000 {
		bytes := 100 + i*7919%10_000
		at := pick(bytes, int64(i))
		if i > 1000 {
			work[at] += bytes
		}
	}
	if most, least := max(work[0], work[1], work[2]), min(work[0], work[1], work[2]); most > 2*least {
		t.Errorf("the workers got prompts of %v bytes", work)
	}
	if short, long := pick(150, 3001), pick(9900, 3001); short != 0 || long != 2 {
		t.Errorf("a short prompt went to %d, a long one to %d, want 0 and 2", short, long)
	}
	ls[2].InFlight = 100
	if got := pick(9900, 3002); got == 2 {
		t.Error("a long prompt went to a worker with 100 requests more than others")
	}
}

// TestManualNamesNoUser: all requests of an application may have the same user.
func TestManualNamesNoUser(t *testing.T) {
	m := newManual(DefaultConfig(), &dice{})
	if got := picks(m, workers.Need{Sticky: 7}, loads(0, 0), 100); got[0] < 20 || got[1] < 20 {
		t.Errorf("a user's 100 requests went to %v, want some to each", got)
	}
	if len(m.keys) != 0 {
		t.Errorf("%d keys are remembered, want none", len(m.keys))
	}
}

func TestManual(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Assignment, cfg.MaxKeys, cfg.MaxIdle = "min_load", 3, time.Minute
	m := newManual(cfg, &dice{})
	ls := loads(5, 1, 3)
	pick := func(key uint64, at int64) int {
		return m.Pick(&workers.Need{Sticky: key, Named: true, At: time.Unix(at, 0)}, ls, partners{})
	}
	if got := pick(1, 0); got != 1 {
		t.Fatalf("a new key went to %d, want the least loaded", got)
	}
	ls[1].InFlight = 50
	if got := pick(1, 30); got != 1 {
		t.Errorf("a known key went to %d, want where it was", got)
	}
	if got := m.Pick(&workers.Need{Sticky: 1, Named: true, At: time.Unix(31, 0)}, []*workers.Load{ls[0], ls[2]}, partners{}); got != 1 {
		t.Errorf("a key whose worker has gone went to %d, want the least loaded", got)
	}
	if got := pick(1, 40); got != 2 {
		t.Errorf("then it went to %d, want where it was last", got)
	}
	if pick(1, 200); len(m.keys) != 1 {
		t.Errorf("%d keys are remembered, want 1", len(m.keys))
	}
	ls[2].InFlight = 60
	if got := pick(1, 500); got != 0 {
		t.Errorf("a key that was not used for long went to %d, want the least loaded", got)
	}
	for key := range uint64(10) {
		pick(key+10, 510)
	}
	if len(m.keys) != 3 {
		t.Errorf("%d keys are remembered, want 3", len(m.keys))
	}
	cfg.Assignment = "min_group"
	m = newManual(cfg, &dice{})
	seen := map[int]int{}
	for key := range uint64(3) {
		seen[pick(key+1, 0)]++
	}
	if len(seen) != 3 {
		t.Errorf("three keys went to %v, want one to each worker", seen)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := Config{MaxBlocks: -1, Hold: -1, LoadFactor: math.NaN(), KVWeight: -1, Metric: "x", Assignment: "y"}
	err := bad.Validate()
	if err == nil {
		t.Fatal("all is wrong, and nothing was said")
	}
	for _, want := range []string{"max-index-blocks", "prefill-hold", "prefix-hash-load-factor", "kv-pressure", "throughput", "mean-prefill", "balance-rel", "bucket-adjust", "max-idle", "power-of-two", `"y"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing is said about %s: %v", want, err)
		}
	}
}
