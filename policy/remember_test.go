package policy

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pdrouter/workers"
)

// taught returns an asker that has had so many prompts of 30 blocks, the first
// three of which they share.
func taught(prompts int) *asker {
	a := newAsker(2, 1)
	for i := range prompts {
		chain := chainAt(i+1, 3, 30)
		a.end(a.ask(chain), chain)
	}
	return a
}

// remembered returns an asker that knows what another one knew.
func remembered(a *asker) *asker {
	b := newAsker(2, 1)
	b.c.Adopt(a.c.Overall().Memory)
	for i, l := range slices.Concat(a.pools[0].Prefill, a.pools[0].Decode) {
		same := slices.Concat(b.pools[0].Prefill, b.pools[0].Decode)[i]
		b.c.Recall(same.Seat, same.Worker, a.c.Remember(l.Seat, l.Worker, nil))
	}
	return b
}

// TestCacheAwareRemembers: a policy that is told what another one knew makes
// the same choices, with the same expectations.
func TestCacheAwareRemembers(t *testing.T) {
	a := taught(200)
	b := remembered(a)
	b.now = a.now
	for i, l := range a.pools[0].Prefill {
		b.pools[0].Prefill[i].Picked = l.Picked
	}
	for _, i := range []int{7, 190, 900} {
		chain := chainAt(i, 3, 30)
		want, got := a.ask(chain), b.ask(chain)
		got.Expect.Ticket = want.Expect.Ticket
		if got != want {
			t.Errorf("prompt %d: the choice is %+v, want %+v", i, got, want)
		}
	}
	known, ratio := a.c.Known(a.now)
	again, same := b.c.Known(b.now)
	for i := range known {
		known[i].Worker, again[i].Worker = nil, nil
	}
	if !reflect.DeepEqual(again, known) || ratio != same {
		t.Errorf("known is %+v and %v, want %+v and %v", again, same, known, ratio)
	}
	if got, want := b.c.shared.blocks(chainAt(1, 3, 30)), a.c.shared.blocks(chainAt(1, 3, 30)); got != want || got != 3 {
		t.Errorf("%d blocks are shared, want %d", got, want)
	}
}

// TestCacheAwareRemembersNoMoreThanItMay: a memory of more blocks than the
// index may have leaves the newest.
func TestCacheAwareRemembersNoMoreThanItMay(t *testing.T) {
	a, b := taught(200), newAsker(1, 1)
	b.c.cfg.MaxBlocks = 300
	m := a.c.Remember(0, a.pools[0].Prefill[0].Worker, nil)
	b.c.Recall(0, b.pools[0].Prefill[0].Worker, m)
	got := b.c.Remember(0, b.pools[0].Prefill[0].Worker, nil).Blocks
	if want := m.Blocks[len(m.Blocks)-300:]; !slices.Equal(got, want) {
		t.Errorf("%d blocks are known, want the newest 300", len(got))
	}
}

// TestCacheAwareTakesNoNonsense: numbers that nothing can have learnt are left.
func TestCacheAwareTakesNoNonsense(t *testing.T) {
	for _, tt := range []struct {
		name    string
		numbers []float64
	}{
		{"none", nil},
		{"too few", []float64{1}},
		{"too many", []float64{1, 2, 3, 4, 5, 6}},
		{"negative", []float64{-1, -1, -1, -1, -1}},
		{"not a number", []float64{1, 2, math.NaN(), 4, 5}},
		{"infinite", []float64{1, 2, math.Inf(1), 4, 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAsker(1, 1)
			bad := workers.Memory{Learnt: map[string][]float64{}}
			for _, name := range []string{ofSpeed, ofRatio, ofMean, ofShared, ofBlock, ofPace, ofKept, ofPool, "of another release"} {
				bad.Learnt[name] = tt.numbers
			}
			if len(tt.numbers) == 1 {
				bad.Learnt = map[string][]float64{ofSpeed: {1}, ofRatio: {1}, ofPace: {1}, ofKept: {7}, ofShared: {1}}
			}
			a.c.Adopt(bad)
			a.c.Recall(0, a.pools[0].Prefill[0].Worker, bad)
			c := a.ask(chainAt(1, 0, 20))
			if want := newAsker(1, 1).ask(chainAt(1, 0, 20)); c.Expect.Work != want.Expect.Work {
				t.Errorf("a prompt is expected to take %v, want %v", c.Expect.Work, want.Expect.Work)
			}
			if k, _ := a.c.Known(a.now); k[0].Share != 1 {
				t.Errorf("%v of the pool is believed to be kept", k[0].Share)
			}
		})
	}
}

// TestCacheAwareTellsChanges: Changes is another number after all that changes
// what is remembered, and the same after nothing.
func TestCacheAwareTellsChanges(t *testing.T) {
	a := taught(20)
	seen := map[uint64]string{a.c.Overall().Changes: "the beginning"}
	chain := chainAt(7, 3, 30)
	var open workers.Choice
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a prompt that it had", func() { open = a.ask(chain) }},
		{"the end of its leg", func() { a.end(open, chain) }},
		{"a flush", func() { a.c.Flushed(0) }},
		{"blocks that were stored", func() { a.c.at(0).held.use(chain) }},
		{"a worker that has gone", func() { a.c.Gone(0) }},
	} {
		step.do()
		now := a.c.Overall().Changes
		if before, ok := seen[now]; ok {
			t.Errorf("after %s it is as after %s", step.what, before)
		}
		seen[now] = step.what
	}
	if a.c.Look(promptOf(chain), new(workers.Matches)); seen[a.c.Overall().Changes] != "a worker that has gone" {
		t.Error("it changes with nothing")
	}
}

// TestBlockKind: the number is written down, so that who changes how blocks are
// hashed notices.
func TestBlockKind(t *testing.T) {
	if kind, want := blockKind(), uint64(0x649e48e2270a144d); kind != want {
		t.Errorf("blocks are of kind %#x, want %#x: a snapshot of the release before is ignored; if that is meant, write down the new one", kind, want)
	}
}

// TestCacheAwareRemembersHowLongBlocksAre: blocks are as long as they were, and
// those of another length are not taken.
func TestCacheAwareRemembersHowLongBlocksAre(t *testing.T) {
	sizedBy := func(bytes int) *asker {
		a := newAsker(2, 1)
		a.c.useBlocks(bytes)
		a.c.block.sized = true
		chain := chainAt(1, 0, 30)
		for _, l := range a.pools[0].Prefill {
			a.c.book(l).kv = 1e6
			a.c.fit(a.c.book(l))
			a.c.book(l).held.use(chain)
		}
		a.c.shared.see(chain)
		return a
	}
	fixed := func() *asker {
		a := newAsker(2, 1)
		a.c.block.fixed = true
		return a
	}
	for _, tt := range []struct {
		name          string
		to            *asker
		bytes, blocks int
		sized         bool
	}{
		{"as long as at first", newAsker(2, 1), 2048, 30, true},
		{"of a length that is fixed", fixed(), BlockBytes, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from := sizedBy(2048)
			tt.to.c.Adopt(from.c.Overall().Memory)
			l := tt.to.pools[0].Prefill[0]
			got := tt.to.c.Recall(l.Seat, l.Worker, from.c.Remember(0, from.pools[0].Prefill[0].Worker, nil))
			if got != tt.blocks || tt.to.c.BlockBytes() != tt.bytes || tt.to.c.block.sized != tt.sized {
				t.Errorf("%d blocks of %d bytes are known, fitted %t; want %d of %d, %t", got, tt.to.c.BlockBytes(), tt.to.c.block.sized, tt.blocks, tt.bytes, tt.sized)
			}
			if n := len(tt.to.c.shared.chain); n != tt.blocks {
				t.Errorf("%d blocks are looked at for what all share, want %d", n, tt.blocks)
			}
			late := tt.to.pools[0].Prefill[1]
			tt.to.c.block.fixed = false
			tt.to.c.useBlocks(1024)
			if got := tt.to.c.Recall(late.Seat, late.Worker, from.c.Remember(1, from.pools[0].Prefill[1].Worker, nil)); got != 0 {
				t.Errorf("%d blocks of a length of before are known", got)
			}
		})
	}
}

// TestHeldIsCopiedWhileUsed: a copy that is made while the set is used has what
// is held all the time. It is for the race detector, too.
func TestHeldIsCopiedWhileUsed(t *testing.T) {
	const blocks = 1 << 14
	h := filled(blocks)
	stay := chainAt(1, 1, 64)
	h.use(stay)
	copies := make(chan []uint64)
	for range 5 {
		go func() { copies <- h.appendOldest(nil) }()
		for i := range 60 { // less than what would have the copy end before it is whole
			h.use(stay)
			if i%8 == 0 {
				h.use(chainAt(1<<20+i, 1, 64))
				h.resize(blocks + i%2)
			}
		}
		copied, again := <-copies, newHeld(2, blocks)
		again.fill(copied)
		if n := again.match(stay, 0); n != len(stay) {
			t.Errorf("%d of %d blocks that are always held are in a copy of %d", n, len(stay), len(copied))
		}
	}
}

// TestHeldIsCopiedBesideAnything compares what is copied in pieces between
// which the set changes with what is held in the end: nothing that was held all
// the time is missing, and the order is that of use.
func TestHeldIsCopiedBesideAnything(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(h *held)
	}{
		{"nothing", func(*held) {}},
		{"the newest is used", func(h *held) { h.use(chainAt(40, 0, 1)) }},
		{"what was copied last is used", func(h *held) { h.use(chainAt(10, 0, 1)) }},
		{"what comes next is used", func(h *held) { h.use(chainAt(11, 0, 1)) }},
		{"what was copied last is dropped", func(h *held) { h.forget(chainAt(10, 0, 1), 0) }},
		{"the oldest are dropped", func(h *held) { h.resize(35) }},
		{"all that was copied is dropped", func(h *held) { h.resize(25) }},
		{"the table grows", func(h *held) { h.use(chainAt(99, 0, 100)) }},
		{"all is dropped", func(h *held) { h.clear() }},
		{"all is dropped, and some come", func(h *held) { h.clear(); h.use(chainAt(10, 0, 5)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHeld(1, 1000)
			for i := range 40 {
				h.use(chainAt(i+1, 0, 1))
			}
			var piece [1000]uint64
			n := h.copyOn(piece[:10])
			tt.change(h)
			n += h.copyOn(piece[n:])
			again := newHeld(2, 1000)
			again.fill(piece[:n])
			want := h.appendOldest(nil)
			dropped := func(key uint64) bool { return !slices.Contains(want, key) }
			if got := slices.DeleteFunc(again.appendOldest(nil), dropped); !slices.Equal(got, want) {
				t.Errorf("the copy has %x, want %x", got, want)
			}
		})
	}
}

// BenchmarkRemember shows what a copy costs, and for how long it holds up a
// choice at a time.
func BenchmarkRemember(b *testing.B) {
	h := filled(500_000)
	var dst []uint64
	for b.Loop() {
		dst = h.appendOldest(dst[:0])
	}
	pieces := float64(b.N) * float64(len(dst)/copyPiece+1)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/pieces, "us/piece")
	b.ReportMetric(float64(len(dst)), "blocks")
}

// BenchmarkRecall shows what it takes to take a snapshot in.
func BenchmarkRecall(b *testing.B) {
	blocks := filled(500_000).appendOldest(nil)
	for b.Loop() {
		newHeld(1, 500_000).fill(blocks)
	}
}
