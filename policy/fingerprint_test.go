package policy

import (
	"bytes"
	"testing"
)

func TestTake(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 1024) // 16 KiB
	changed := bytes.Clone(long)
	changed[BlockBytes-1] = 'x'
	late := bytes.Clone(long)
	late[keyBlocks*BlockBytes] = 'x'
	base := Take(nil, [][]byte{long})
	tests := []struct {
		name       string
		seed       [][]byte
		prompt     [][]byte
		wantSame   bool // key as that of the base
		wantBlocks int
	}{
		{"the same prompt", nil, [][]byte{long}, true, keyBlocks},
		{"the same prompt in pieces", nil, [][]byte{long[:7], nil, long[7:1000], long[1000:]}, true, keyBlocks},
		{"a prompt that differs behind the blocks of the key", nil, [][]byte{late}, true, keyBlocks},
		{"a prompt that differs in its first block", nil, [][]byte{changed}, false, keyBlocks},
		{"a prompt that ends earlier", nil, [][]byte{long[:3*BlockBytes+1]}, false, 3},
		{"another model", [][]byte{[]byte("m")}, [][]byte{long}, false, keyBlocks},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Take(tt.seed, tt.prompt)

			if same := got.Key == base.Key; same != tt.wantSame || got.Blocks != tt.wantBlocks {
				t.Errorf("Take = %+v, same as the base %t, want %t with %d blocks", got, same, tt.wantSame, tt.wantBlocks)
			}
		})
	}
}

func TestTakeShort(t *testing.T) {
	if got := Take([][]byte{[]byte("m")}, [][]byte{make([]byte, BlockBytes-1)}); got.Key != 0 || got.Blocks != 0 {
		t.Errorf("Take of a prompt shorter than a block = %+v, want no key", got)
	}
}

// TestTakeTellsSeedsApart: two seed pieces are not the same as one of both.
func TestTakeTellsSeedsApart(t *testing.T) {
	prompt := [][]byte{make([]byte, BlockBytes)}
	ab := Take([][]byte{[]byte("a"), []byte("b")}, prompt)
	if got := Take([][]byte{[]byte("ab")}, prompt); got.Key == ab.Key {
		t.Error("the seeds a, b and ab have the same key")
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	seed, prompt := [][]byte{[]byte("m")}, [][]byte{make([]byte, 8*BlockBytes)}
	if n := testing.AllocsPerRun(100, func() { Take(seed, prompt) }); n != 0 {
		t.Errorf("Take makes %v allocations, want 0", n)
	}
}

func BenchmarkTake(b *testing.B) {
	prompt := [][]byte{make([]byte, 1<<20)}
	for b.Loop() {
		Take(nil, prompt)
	}
}
