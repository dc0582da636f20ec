package policy

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// chainAt returns a chain of n blocks that is the same as that of another
// branch for the first stem blocks.
func chainAt(branch, stem, n int) []uint64 {
	chain, last := make([]uint64, n), uint64(0)
	for i := range chain {
		id := uint64(i)
		if i >= stem {
			id |= uint64(branch) << 32
		}
		last = scatter(last ^ scatter(id+1))
		chain[i] = last
	}
	return chain
}

func TestHeldMatch(t *testing.T) {
	h := newHeld(1, 1000)
	h.use(chainAt(1, 4, 10))
	h.use(chainAt(2, 4, 20))
	tests := []struct {
		name  string
		chain []uint64
		want  int
	}{
		{"nothing matches an empty prompt", nil, 0},
		{"a prompt that was used matches whole", chainAt(1, 4, 10), 10},
		{"one that goes on matches what was used", chainAt(1, 4, 30), 10},
		{"one that ends earlier matches whole", chainAt(2, 4, 7), 7},
		{"one that branches off matches the stem", chainAt(3, 4, 9), 4},
		{"one of another kind matches nothing", chainAt(4, 0, 9), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := h.match(tt.chain, 0); got != tt.want {
				t.Errorf("match = %d blocks, want %d", got, tt.want)
			}
		})
	}
}

// TestHeldIsAsAnLRU compares a held with the plainest cache there is, over
// prompts that share beginnings: what is held is the same, and it is closed
// under the block before.
func TestHeldIsAsAnLRU(t *testing.T) {
	for seed := range uint64(20) {
		dice := rand.New(rand.NewPCG(seed, 0))
		limit := 1 + dice.IntN(60)
		h := newHeld(1, limit)
		var plain []uint64 // the oldest first
		for range 400 {
			chain := chainAt(dice.IntN(8), dice.IntN(6), 1+dice.IntN(30))
			h.use(chain)
			for _, key := range slices.Backward(chain[:min(len(chain), limit)]) {
				plain = slices.DeleteFunc(plain, func(k uint64) bool { return k == key })
				plain = append(plain, key)
			}
			plain = plain[max(len(plain)-limit, 0):]
		}
		if got := h.appendOldest(nil); !slices.Equal(got, plain) {
			t.Fatalf("seed %d: held has %d blocks, want %d, in order of use", seed, len(got), len(plain))
		}
		for branch := range 8 {
			for stem := range 6 {
				chain := chainAt(branch, stem, 30)
				want := 0
				for want < len(chain) && slices.Contains(plain, chain[want]) {
					want++
				}
				for guess := range 32 {
					if got := h.match(chain, guess); got != want {
						t.Fatalf("seed %d: match = %d with a guess of %d, want %d", seed, got, guess, want)
					}
				}
			}
		}
	}
}

// TestHeldForgets: what was forgotten is not found, and its place is used
// again.
func TestHeldForgets(t *testing.T) {
	h := newHeld(1, 100)
	h.use(chainAt(1, 0, 40))
	h.forget(chainAt(1, 0, 40), 25)
	if got := h.match(chainAt(1, 0, 40), 0); got != 25 {
		t.Errorf("match = %d after the blocks from 25 on were forgotten", got)
	}
	h.use(chainAt(2, 0, 60))
	if n, _ := h.size(); n != 85 {
		t.Errorf("%d blocks are held, want 85", n)
	}
	h.resize(50)
	if n, limit := h.size(); n != 50 || limit != 50 {
		t.Errorf("%d of %d blocks are held, want 50 of 50", n, limit)
	}
	if got := h.match(chainAt(2, 0, 60), 0); got != 50 {
		t.Errorf("match = %d of the prompt used last, want its first 50 blocks", got)
	}
	h.clear()
	if n, _ := h.size(); n != 0 || h.match(chainAt(2, 0, 60), 0) != 0 {
		t.Errorf("%d blocks are held after all were dropped", n)
	}
	h.resize(0)
	h.use(chainAt(2, 0, 60))
	if n, _ := h.size(); n != 0 {
		t.Errorf("%d blocks are held where none may be", n)
	}
}

// TestHeldWhileItChanges looks up while another goroutine writes: a lookup ends
// and never claims more than the prompt has. What is never dropped is found
// but for the moments in which it is moved.
func TestHeldWhileItChanges(t *testing.T) {
	h := newHeld(1, 500)
	var done sync.WaitGroup
	done.Go(func() {
		for i := range 3000 {
			h.use(chainAt(i, 3, 40))
		}
	})
	found := 0
	for i := range 3000 {
		got := h.match(chainAt(i, 3, 40), 0)
		if got > 40 {
			t.Fatalf("match = %d of 40", got)
		}
		found += got
	}
	done.Wait()
	if found == 0 && h.match(chainAt(2999, 3, 40), 0) != 40 {
		t.Error("nothing was ever found")
	}
}

// TestHeldMemory: a block costs at most 32 bytes.
func TestHeldMemory(t *testing.T) {
	const blocks = 1 << 18
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	h := newHeld(1, blocks)
	chain := make([]uint64, 64)
	for i := 0; i < blocks; i += len(chain) {
		for j := range chain {
			chain[j] = scatter(uint64(i + j))
		}
		h.use(chain)
	}
	if each := float64(heap()-before) / blocks; each > 32 {
		t.Errorf("a block costs %.1f bytes, want at most 32", each)
	}
	if n, _ := h.size(); n != blocks {
		t.Errorf("%d blocks are held, want %d", n, blocks)
	}
}

func FuzzHeld(f *testing.F) {
	f.Add([]byte{1, 2, 3, 130, 4, 250, 7, 1})
	f.Fuzz(func(t *testing.T, steps []byte) {
		h := newHeld(1, 24)
		for _, step := range steps {
			chain := chainAt(int(step%16), int(step%5), 1+int(step/8))
			switch {
			case step > 240:
				h.resize(int(step - 230))
			case step%7 == 6:
				h.forget(chain, len(chain)/2)
			default:
				h.use(chain)
				if got, want := h.match(chain, 0), min(len(chain), h.limit); got < want {
					t.Fatalf("match = %d right after use, want %d", got, want)
				}
			}
			if n, limit := h.size(); n > limit || n != len(h.appendOldest(nil)) {
				t.Fatalf("%d blocks are held, %d may be, %d are in the list", n, limit, len(h.appendOldest(nil)))
			}
		}
	})
}

// filled returns a set of so many blocks, in prompts of 64.
func filled(blocks int) *held {
	h := newHeld(1, blocks)
	for i := range blocks / 64 {
		h.use(chainAt(i+1, 1, 64))
	}
	return h
}

func BenchmarkHeldMatch(b *testing.B) {
	for _, blocks := range []int{1 << 12, 1 << 20} {
		b.Run(fmt.Sprint(blocks), func(b *testing.B) {
			h := filled(blocks)
			chains := make([][]uint64, 1024)
			for i := range chains {
				chains[i] = chainAt(i*(blocks/64)/1024+1, 1, 96)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					h.match(chains[i%len(chains)], 0)
				}
			})
		})
	}
}

func BenchmarkHeldUse(b *testing.B) {
	h := filled(1 << 16)
	chains := make([][]uint64, 4096)
	for i := range chains {
		chains[i] = chainAt(i+1, 1, 64)
	}
	i := 0
	for b.Loop() {
		h.use(chains[i%len(chains)])
		i++
	}
}
