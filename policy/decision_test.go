package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pdrouter/workers"
)

// text returns a prompt of n bytes; the first stem bytes are the same for all.
func text(branch, stem, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		id := uint64(i / 8)
		if i >= stem {
			id |= uint64(branch) << 32
		}
		b[i] = byte(scatter(id) >> (i % 8 * 8))
	}
	return b
}

// decider makes decisions as a router does, all of it but the registry.
type decider struct {
	c       *CacheAware
	pools   []workers.Pool
	chain   []uint64
	block   int
	matches workers.Matches
	now     time.Time
	picked  uint64
	explain *workers.Explanation
}

func (d *decider) decide(prompt []byte) workers.Choice {
	seed, pieces := [1][]byte{[]byte("model")}, [1][]byte{prompt}
	d.chain = Chain(d.chain[:0], seed[:], pieces[:], d.block)
	d.now = d.now.Add(time.Millisecond)
	need := workers.Need{
		Key: KeyOf(d.chain, d.block), At: d.now, Matches: &d.matches,
		Prompt: workers.Prompt{Chain: d.chain, Block: d.block, Bytes: len(prompt)},
	}
	if need.Explain = d.explain; d.explain != nil {
		d.explain.Reset()
	}
	d.c.Look(need.Prompt, &d.matches)
	choice := d.c.Choose(need, d.pools)
	for _, l := range [...]*workers.Load{d.pools[0].Prefill[choice.Prefill], d.pools[0].Decode[choice.Decode]} {
		d.picked++
		l.Picked = d.picked
	}
	d.c.Ended(d.pools[0].Prefill[choice.Prefill].Seat, workers.Prefilled{
		At: d.now, Prompt: need.Prompt, Expect: choice.Expect, OK: true, Tokens: len(prompt) / 4, Cached: choice.Expect.Blocks * d.block / 4,
	})
	return choice
}

func newDecider(n, block int) *decider {
	cfg := DefaultConfig()
	cfg.BlockBytes = block
	return &decider{c: NewCacheAware(cfg), block: block, pools: fleet(n, n), now: time.Unix(1e9, 0)}
}

func TestDecisionDoesNotAllocate(t *testing.T) {
	d, i := newDecider(8, BlockBytes), 0
	prompts := make([][]byte, 50)
	for i := range prompts {
		prompts[i] = text(i, 8<<10, 32<<10)
	}
	for _, p := range prompts {
		d.decide(p)
	}
	if n := testing.AllocsPerRun(200, func() { d.decide(prompts[i%len(prompts)]); i++ }); n != 0 {
		t.Errorf("a decision makes %v allocations, want 0", n)
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{8, 128} {
		for _, block := range []int{BlockBytes / 4, BlockBytes / 2, BlockBytes} {
			b.Run(fmt.Sprintf("%d-of-%dB", n, block), func(b *testing.B) { benchmarkDecision(b, newDecider(n, block)) })
		}
	}
}

func benchmarkDecision(b *testing.B, d *decider) {
	prompts := make([][]byte, 500) // a conversation each: half of it is there already
	for i := range prompts {
		prompts[i] = text(i, 4<<10, 32<<10)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := prompts[rand.IntN(len(prompts))]
		d.decide(p)
	}
}

func BenchmarkChain(b *testing.B) {
	prompt := [][]byte{text(1, 0, 32<<10)}
	for _, block := range []int{BlockBytes / 4, BlockBytes, mostBlock} {
		b.Run(fmt.Sprint(block), func(b *testing.B) {
			var chain []uint64
			b.SetBytes(int64(len(prompt[0])))
			for b.Loop() {
				chain = Chain(chain[:0], nil, prompt, block)
			}
		})
	}
}
