package policy

import (
	"fmt"
	"testing"

	"pdrouter/workers"
)

// loads returns workers with the given requests under way.
func loads(n ...int) []*workers.Load {
	ls := make([]*workers.Load, len(n))
	for i, inFlight := range n {
		ls[i] = &workers.Load{Worker: &workers.Worker{Spec: workers.Spec{URL: fmt.Sprintf("http://10.0.0.%d:8000", i)}}, InFlight: inFlight, Weight: 1}
	}
	return ls
}

// run sends requests with the keys, none of which ends, and returns the loads.
func run(ls []*workers.Load, keys ...uint64) []*workers.Load {
	pools := []workers.Pool{{Prefill: ls, Decode: loads(0)}}
	for i, key := range keys {
		l := ls[hashing().Choose(workers.Need{Key: key}, pools).Prefill]
		l.InFlight++
		l.Picked = uint64(i + 1)
	}
	return ls
}

func TestPrefixHashKeepsPromptsTogether(t *testing.T) {
	for key := uint64(1); key < 100; key++ {
		first := place(key, loads(0, 0, 0, 0))
		if again := place(key, loads(0, 0, 0, 0)); again != first {
			t.Fatalf("key %d goes to worker %d, then to %d", key, first, again)
		}
	}
}

func TestPrefixHashSpreadsDifferentPrompts(t *testing.T) {
	var keys []uint64
	for i := range uint64(400) {
		keys = append(keys, (i+1)*0x9e3779b97f4a7c15)
	}
	for i, l := range run(loads(0, 0, 0, 0), keys...) {
		if l.InFlight < 75 || l.InFlight > 125 {
			t.Errorf("worker %d got %d of 400 prompts, want 100 and at most a quarter more or less", i, l.InFlight)
		}
	}
}

// TestPrefixHashBoundsTheLoad sends one prompt only: affinity gives way to the
// bound, so no worker has more than 1.25 times the average.
func TestPrefixHashBoundsTheLoad(t *testing.T) {
	keys := make([]uint64, 400)
	for i := range keys {
		keys[i] = 42
	}
	for i, l := range run(loads(0, 0, 0, 0), keys...) {
		if l.InFlight > 126 {
			t.Errorf("worker %d got %d of 400 requests, want at most 126", i, l.InFlight)
		}
	}
}

func TestPrefixHashWithoutAKey(t *testing.T) {
	tests := []struct {
		name  string
		loads []int
		want  []int // loads after as many requests as make them even
	}{
		{"the least loaded first", []int{5, 3, 4}, []int{5, 5, 5}},
		{"equals in turn", []int{0, 0, 0}, []int{1, 1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ls := run(loads(tt.loads...), make([]uint64, 3)...)
			for i, l := range ls {
				if l.InFlight != tt.want[i] {
					t.Errorf("loads %v became %d at %d, want %v", tt.loads, l.InFlight, i, tt.want)
				}
			}
		})
	}
}

// TestPrefixHashMovesOnlyItsShare: when a worker goes, the prompts of the
// others stay where their blocks are.
func TestPrefixHashMovesOnlyItsShare(t *testing.T) {
	all := loads(0, 0, 0, 0)
	for i := range uint64(500) {
		key := (i + 1) * 0x9e3779b97f4a7c15
		before := all[place(key, all)]
		if before == all[3] {
			continue
		}
		if after := all[:3][place(key, all[:3])]; after != before {
			t.Fatalf("key %x moved from %s to %s though its worker stayed", key, before.Worker.URL, after.Worker.URL)
		}
	}
}

// TestPrefixHashTakesAPartner parts pairs one after the other: the decode worker
// always fits the prefill worker, and the prompt's prefill worker stays the same.
func TestPrefixHashTakesAPartner(t *testing.T) {
	const key = 42
	pool := workers.Pool{Prefill: loads(0, 0, 0), Decode: loads(0, 0, 0)}
	first := hashing().Choose(workers.Need{Key: key}, []workers.Pool{pool})
	seen := map[int]bool{}
	for range pool.Decode {
		c := hashing().Choose(workers.Need{Key: key}, []workers.Pool{pool})
		if c.Prefill != first.Prefill || !pool.Fits(c.Prefill, c.Decode) || seen[c.Decode] {
			t.Fatalf("Choose = %+v after the decode workers %v were parted from prefill worker %d", c, seen, first.Prefill)
		}
		seen[c.Decode] = true
		pool.Part(c.Prefill, c.Decode)
	}
}

// TestPrefixHashWarms sends many prompts to workers of which the last is being
// warmed: it gets its share, and what it does not get is where it will be.
func TestPrefixHashWarms(t *testing.T) {
	count := func(weight float64, key func(i uint64) uint64) (got int) {
		ls := loads(0, 0, 0, 0)
		ls[3].Weight = weight
		var keys []uint64
		for i := range uint64(1300) {
			keys = append(keys, key(i+1))
		}
		return run(ls, keys...)[3].InFlight
	}
	spread := func(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 }
	none := func(uint64) uint64 { return 0 }
	for _, tt := range []struct {
		name   string
		weight float64
		key    func(uint64) uint64
		want   int // of 1300
	}{
		{"a quarter of a share, by prompt", 0.25, spread, 100},
		{"a quarter of a share, by load", 0.25, none, 100},
		{"a whole share", 1, spread, 325},
	} {
		if got := count(tt.weight, tt.key); got < tt.want*3/4 || got > tt.want*5/4 {
			t.Errorf("%s: %d of 1300 prompts, want %d and at most a quarter more or less", tt.name, got, tt.want)
		}
	}
	for key := range uint64(100) { // one prompt only, as in TestPrefixHashBoundsTheLoad
		if got := count(0.25, func(uint64) uint64 { return key + 1 }); got > 126 {
			t.Errorf("key %d: %d of 1300 requests, want at most a quarter more than 100", key+1, got)
		}
	}
	warming, warm := loads(0, 0, 0, 0), loads(0, 0, 0, 0)
	warming[3].Weight = 0.25
	for i := range uint64(500) {
		before, after := place(spread(i+1), warming), place(spread(i+1), warm)
		if before != after && after != 3 {
			t.Fatalf("key %d moved from worker %d to %d when worker 3 was warm", i, before, after)
		}
	}
}

func TestPrefixHashTakesTheEmptierPool(t *testing.T) {
	pools := []workers.Pool{{Prefill: loads(0), Decode: loads(3, 3)}, {Prefill: loads(9), Decode: loads(2, 3)}}
	if c := hashing().Choose(workers.Need{Key: 7}, pools); c.Pool != 1 {
		t.Errorf("Choose takes pool %d, want 1", c.Pool)
	}
}

func TestChooseDoesNotAllocate(t *testing.T) {
	pools := []workers.Pool{{Prefill: loads(1, 2, 3, 4), Decode: loads(4, 3, 2, 1)}}
	c := hashing()
	if n := testing.AllocsPerRun(100, func() { c.Choose(workers.Need{Key: 7}, pools) }); n != 0 {
		t.Errorf("Choose makes %v allocations, want 0", n)
	}
}

func BenchmarkChoose(b *testing.B) {
	for _, n := range []int{2, 8, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			pools := []workers.Pool{{Prefill: loads(make([]int, n)...), Decode: loads(make([]int, n)...)}}
			c := hashing()
			for b.Loop() {
				c.Choose(workers.Need{Key: 7}, pools)
			}
		})
	}
}

// place is where prefix_hash places a key.
func place(key uint64, loads []*workers.Load) int {
	return bounded{}.rendezvous(key, loads, partners{})
}

func hashing() workers.Chooser { return PrefixHash{} }
