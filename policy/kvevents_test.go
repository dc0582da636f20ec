package policy

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/workers"
)

// TestKVEventsMakeTheIndexExact runs random conversations through an engine
// whose cache is small. After each of its steps the index must be what the
// engine holds, to within a block.
func TestKVEventsMakeTheIndexExact(t *testing.T) {
	four := func(uint32) int { return 4 }
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			k := newKVTest(t, 16, 1500, four)
			k.engine.arrays = seed%2 == 1
			k.c.KVFollowed(0, 0)
			evicted := 0
			for step := range 150 {
				var tokens []uint32
				if n := len(k.prompts); n > 0 && rng.IntN(3) > 0 { // a conversation goes on
					tokens = slices.Clone(k.prompts[rng.IntN(n)].tokens)
					if rng.IntN(4) == 0 { // from somewhere before
						tokens = tokens[:rng.IntN(len(tokens))+1]
					}
				}
				tokens = append(tokens, randomTokens(rng, 20+rng.IntN(1500))...)
				if len(tokens) > 12000 {
					continue
				}
				prompt := k.prompt(tokens)
				k.prompts = append(k.prompts, prompt)
				k.prefill(prompt, rng.IntN(3) == 0, seed < 2)
				if rng.IntN(4) == 0 { // somebody else asks the engine
					k.engine.compute(k.prompts[rng.IntN(len(k.prompts))].tokens, 1)
					k.engine.publish(t)
				}
				if rng.IntN(60) == 0 {
					k.engine.clear()
					k.engine.publish(t)
				}
				for i, p := range k.prompts {
					if off := k.off(p); off < -1 || off > 1 {
						t.Fatalf("step %d: of prompt %d the index is off by %d blocks", step, i, off)
					}
					if k.engine.holds(p.hashes) < len(p.hashes)*16 {
						evicted++
					}
				}
			}
			if !k.c.at(0).exact() || evicted == 0 {
				t.Errorf("exact is %v, %d prompts were evicted", k.c.at(0).exact(), evicted)
			}
		})
	}
}

// spread returns a length of each token's text: four bytes on average.
func spread(id uint32) int { return 1 + int(id%7) }

// TestKVEventsOfUnevenText: tokens are of one to seven bytes, many prompts are
// under way at once, and of what is computed for others nobody tells.
func TestKVEventsOfUnevenText(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	k := newKVTest(t, 16, 3000, spread)
	k.c.KVFollowed(0, 0)
	sum, n := 0, 0
	for range 80 {
		var open []kvPrompt
		for range 1 + rng.IntN(4) {
			var tokens []uint32
			if n := len(k.prompts); n > 0 && rng.IntN(2) > 0 {
				tokens = slices.Clone(k.prompts[rng.IntN(n)].tokens)
			}
			tokens = append(tokens, randomTokens(rng, 20+rng.IntN(1500))...)
			open = append(open, k.prompt(tokens[:min(len(tokens), 12000)]))
		}
		var ends []workers.Prefilled
		for _, p := range open {
			need := workers.Need{Prompt: workers.Prompt{Chain: p.chain, Bytes: p.bytes}, At: k.now}
			choice := k.lease(k.c.Choose(need, k.pools))
			cached := k.engine.compute(p.tokens, 1+rng.IntN(3))
			ends = append(ends, workers.Prefilled{Prompt: need.Prompt, Expect: choice.Expect, OK: true, Tokens: len(p.tokens), Cached: cached})
		}
		k.engine.publish(t)
		for _, i := range rng.Perm(len(ends)) {
			k.now = k.now.Add(20 * time.Millisecond)
			ends[i].At = k.now
			k.c.Ended(0, ends[i])
			if rng.IntN(5) > 0 {
				k.prompts = append(k.prompts, open[i])
			}
		}
		for _, p := range k.prompts {
			off := k.off(p)
			sum += max(off, -off)
			n++
			if max(off, -off) > 6 {
				t.Fatalf("the index is off by %d of %d blocks", off, len(p.chain))
			}
		}
	}
	if mean := float64(sum) / float64(n); mean > 0.3 {
		t.Errorf("the index is off by %.2f blocks on average", mean)
	} else {
		t.Logf("the index is off by %.2f blocks on average", mean)
	}
}

// TestKVEventsFromTheMiddle: the router comes when the engine's cache is full
// of what it never heard of.
func TestKVEventsFromTheMiddle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	k := newKVTest(t, 16, 1000, func(uint32) int { return 4 })
	system := randomTokens(rng, 2048)
	with := func(n int) kvPrompt { return k.prompt(slices.Concat(system, randomTokens(rng, n))) }
	k.engine.compute(system, 1)
	k.engine.events = nil
	k.prefill(with(100), false, true) // before it is followed
	k.c.KVFollowed(0, 0)
	for i := range 40 {
		k.prompts = append(k.prompts, with(300+10*i))
		k.prefill(k.prompts[i], i%2 == 0, true)
		for j, p := range k.prompts {
			if off := k.off(p); off < -1 || off > 1 {
				t.Fatalf("step %d: of prompt %d the index is off by %d blocks", i, j, off)
			}
		}
	}
	if !k.c.at(0).exact() {
		t.Error("it is not taken for exact")
	}
}

// TestKVEventsLost: what has been missed is estimated, as if there had been no
// events, and what comes later is exact again.
func TestKVEventsLost(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	k := newKVTest(t, 16, 1000, func(uint32) int { return 4 })
	k.c.KVFollowed(0, 0)
	p := k.prompt(randomTokens(rng, 4000))
	k.prefill(p, false, true)
	if !k.c.at(0).exact() {
		t.Fatal("it is not taken for exact")
	}
	k.c.KVLost(0, 0)
	if k.c.at(0).exact() || k.off(p) != 0 {
		t.Errorf("exact is %v, and the index off by %d blocks", k.c.at(0).exact(), k.off(p))
	}
	k.c.KVTold(0, 0, k.now, &workers.KVEvent{Kind: workers.KVCleared}) // nobody is listened to
	if k.off(p) != 0 {
		t.Error("an event of a worker that is not followed was believed")
	}
	k.c.KVFollowed(0, 0)
	q := k.prompt(randomTokens(rng, 4000))
	k.prefill(q, false, true)
	if !k.c.at(0).exact() || k.off(q) != 0 {
		t.Errorf("exact is %v, and the index off by %d blocks", k.c.at(0).exact(), k.off(q))
	}
	k.engine.clear()
	k.engine.publish(t)
	if k.off(q) != 0 || k.off(p) != 0 {
		t.Error("what was cleared is believed to be there")
	}
	k.c.Gone(0)
	k.c.KVTold(0, 0, k.now, &workers.KVEvent{Kind: workers.KVCleared})
	k.c.KVLost(0, 0)
}

// TestKVEventsOfEqualLegs: of two prompts of one length that end together it
// cannot be told which blocks are whose, so it is not.
func TestKVEventsOfEqualLegs(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	k := newKVTest(t, 16, 1000, func(uint32) int { return 4 })
	k.c.KVFollowed(0, 0)
	a, b := k.prompt(randomTokens(rng, 1600)), k.prompt(randomTokens(rng, 1600))
	var ends []workers.Prefilled
	for _, p := range []kvPrompt{a, b} {
		need := workers.Need{Prompt: workers.Prompt{Chain: p.chain, Bytes: p.bytes}, At: k.now}
		choice := k.lease(k.c.Choose(need, k.pools))
		k.engine.compute(p.tokens, 1)
		ends = append(ends, workers.Prefilled{At: k.now, Prompt: need.Prompt, Expect: choice.Expect, OK: true, Tokens: 1600, Cached: 0})
	}
	k.engine.publish(t)
	for _, e := range ends {
		k.c.Ended(0, e)
	}
	if _, ok := k.c.mirrors.names.find(a.chain[0], 16); ok {
		t.Error("blocks were given to one of two that they may be of")
	}
	k.now = k.now.Add(time.Minute)
	// The one goes on, and then it is known of both.
	k.prefill(k.prompt(slices.Concat(a.tokens, randomTokens(rng, 500))), false, true)
	if p, ok := k.c.mirrors.names.find(a.chain[0], 16); !ok || p.depth != 128 {
		t.Errorf("the first block ends at %+v, %v", p, ok)
	}
	k.engine.clear()
	k.engine.publish(t)
	if k.off(a) != 0 {
		t.Error("what was cleared is believed to be there")
	}
}

// TestKVEventsOfAnotherWorker: where blocks end is known of all workers as soon
// as it is of one, such as of a decode worker, whose legs tell nothing.
func TestKVEventsOfAnotherWorker(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	k := newKVTest(t, 16, 1000, func(uint32) int { return 4 })
	seat := k.pools[0].Decode[0].Seat
	other := &kvEngine{size: 16, most: 1000, blocks: map[uint64]*kvBlock{}, arrays: true}
	other.tell = func(e *workers.KVEvent) { k.c.KVTold(seat, 1, k.now, e) }
	k.c.KVFollowed(0, 0)
	k.c.KVFollowed(seat, 0)
	k.c.KVFollowed(seat, 1)
	p := k.prompt(randomTokens(rng, 4000))
	k.prefill(p, false, true)
	other.compute(p.tokens, 1)
	other.publish(t)
	if got := k.c.at(seat).held.match(p.chain, 0); got < 31 {
		t.Fatalf("decode holds %d blocks", got)
	}
	other.clear()
	other.publish(t)
	if got := k.c.at(seat).held.match(p.chain, 0); got != 0 {
		t.Errorf("decode still holds %d blocks", got)
	}
}

// TestKVEventsAfterOurBlocksHaveChanged: where they end is learnt anew, of what
// the engine holds already too.
func TestKVEventsAfterOurBlocksHaveChanged(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	k := newKVTest(t, 16, 1000, func(uint32) int { return 4 })
	k.c.KVFollowed(0, 0)
	p := k.prompt(randomTokens(rng, 4000))
	k.prefill(p, false, true)
	k.c.at(0).held.clear()
	k.c.mirrors.forget()
	k.engine.compute(p.tokens, 1)
	k.engine.publish(t)
	if got := k.c.at(0).held.match(p.chain, 0); got != 0 {
		t.Errorf("%d blocks are held that are none any more", got)
	}
	q := k.prompt(slices.Concat(p.tokens, randomTokens(rng, 1000)))
	k.prefill(q, false, true)
	if k.off(p) != 0 || k.off(q) != 0 {
		t.Errorf("the index is off by %d and %d blocks", k.off(p), k.off(q))
	}
	k.engine.clear()
	k.engine.publish(t)
	if k.off(p) != 0 || k.off(q) != 0 {
		t.Errorf("the index is off by %d and %d blocks", k.off(p), k.off(q))
	}
}

// TestKVEventsOfARealEngine: the batches that a real vLLM published, and the
// prompts that they were for.
func TestKVEventsOfARealEngine(t *testing.T) {
	text, err := os.ReadFile("../workers/testdata/kvbatches.txt")
	if err != nil {
		t.Fatal(err)
	}
	a := newAsker(1, 1)
	a.c.KVFollowed(0, 0)
	var r workers.KVReader
	var batches [][]byte
	for line := range strings.Lines(string(text)) {
		if payload, err := hex.DecodeString(strings.TrimSpace(line)); err == nil {
			batches = append(batches, payload)
		}
	}
	publish := func(batch int) {
		t.Helper()
		if n, err := r.Read(batches[batch], func(e *workers.KVEvent) { a.c.KVTold(0, 0, a.now, e) }); err != nil || n.Malformed > 0 {
			t.Fatal(n, err)
		}
	}
	fox := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20)
	ask := func(prompt string, tokens, batch int) []uint64 {
		t.Helper()
		chain := Chain(nil, nil, [][]byte{[]byte(prompt)}, BlockBytes)
		p := workers.Prompt{Chain: chain, Bytes: len(prompt)}
		choice := a.lease(a.c.Choose(workers.Need{Prompt: p, At: a.now}, a.pools))
		publish(batch)
		a.c.Ended(0, workers.Prefilled{At: a.now, Prompt: p, Expect: choice.Expect, OK: true, Tokens: tokens, Cached: -1})
		return chain
	}
	// Their one block ends after 117 tokens, and 96 were stored.
	for i := range 3 {
		if chain := ask(fmt.Sprintf("Story %d: %s", i, fox[:12*45]), 125, i); a.c.at(0).held.match(chain, 0) != 0 {
			t.Errorf("of prompt %d a block is believed to be there that is only half stored", i)
		}
	}
	chain := ask("Story 0: "+fox, 205, 3)
	if got := a.c.at(0).held.match(chain, 0); got != 1 || !a.c.at(0).exact() {
		t.Errorf("%d blocks are believed to be there, exact is %v", got, a.c.at(0).exact())
	}
	publish(4)
	if got := a.c.at(0).held.match(chain, 0); got != 0 {
		t.Errorf("%d blocks are believed to be there that were dropped", got)
	}
}
