package policy

import (
	"math"
	"testing"
	"time"

	"pdrouter/workers"
)

// sized is a CacheAware whose fingerprints are made as a router makes them.
type sized struct {
	*asker
	tokenBytes float64
}

// send lets a prompt be computed, of which the engine says how many tokens it
// has, and returns how many blocks were believed to be cached.
func (s *sized) send(prompt []byte) int {
	block := s.c.BlockBytes()
	p := workers.Prompt{Chain: Chain(nil, nil, [][]byte{prompt}, block), Block: block, Bytes: len(prompt)}
	return s.sendPrompt(p, p)
}

// sendPrompt is send of a prompt that has become another one when its leg ends.
func (s *sized) sendPrompt(p, end workers.Prompt) int {
	c := s.lease(s.c.Choose(workers.Need{Prompt: p, At: s.now}, s.pools))
	s.pools[0].Prefill[c.Prefill].InFlight--
	s.pools[0].Decode[c.Decode].InFlight--
	s.now = s.now.Add(time.Millisecond)
	s.c.Ended(s.pools[0].Prefill[c.Prefill].Seat, workers.Prefilled{
		At: s.now, Prompt: end, Expect: c.Expect, OK: true, Tokens: int(float64(p.Bytes) / s.tokenBytes), Cached: -1,
	})
	return c.Expect.Blocks
}

// newSized returns a fleet of as many workers as there are sizes of blocks, in
// tokens, that they report.
func newSized(cfg Config, tokenBytes float64, pages ...float64) *sized {
	a := newAsker(len(pages), 1)
	a.c = NewCacheAware(cfg)
	for i, l := range a.pools[0].Prefill {
		l.Report = &workers.Report{KVCapacity: 100_000, BlockSize: pages[i], Running: math.NaN()}
	}
	return &sized{a, tokenBytes}
}

func TestBlocksAreAsLongAsTheEngines(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name       string
		tokenBytes float64
		pages      []float64
		maxBlocks  int
		want       int
	}{
		{"vLLM's blocks are below what a decision may cost", 4, []float64{16}, 4 << 20, BlockBytes},
		{"SGLang's page of one token", 4, []float64{1}, 4 << 20, BlockBytes},
		{"the size that it is at first", 4, []float64{128}, 4 << 20, BlockBytes},
		{"not wrong by a factor of two", 4, []float64{250}, 4 << 20, BlockBytes},
		{"a model with state", 4, []float64{544}, 4 << 20, 2048},
		{"Chinese in UTF-8", 2, []float64{544}, 4 << 20, 1024},
		{"the smallest of several", 4, []float64{4096, 544, 1000}, 4 << 20, 2048},
		{"of those that tell", 4, []float64{nan, 544}, 4 << 20, 2048},
		{"larger than any", 4, []float64{100_000}, 4 << 20, mostBlock},
		{"nobody tells", 4, []float64{nan}, 4 << 20, BlockBytes},
		{"an index that would not hold them all", 4, []float64{16}, 100, 4096},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.MaxBlocks = tt.maxBlocks
			s := newSized(cfg, tt.tokenBytes, tt.pages...)
			for i := range 10 * sizeFirst {
				s.send(text(i+1, 0, 2000))
			}
			if got := s.c.BlockBytes(); got != tt.want {
				t.Errorf("blocks are %d bytes long, want %d", got, tt.want)
			}
		})
	}
}

func TestAFixedBlockStays(t *testing.T) {
	cfg := DefaultConfig()
	cfg.BlockBytes = 300
	s := newSized(cfg, 4, 544)
	for i := range 2 * sizeFirst {
		s.send(text(i+1, 0, 2000))
	}
	if s.c.useBlocks(2048); s.c.BlockBytes() != 300 {
		t.Errorf("blocks are %d bytes long, want 300", s.c.BlockBytes())
	}
}

// TestBlocksAreSizedAgainLate: what the text of an hour is like changes nothing.
func TestBlocksAreSizedAgainLate(t *testing.T) {
	s := newSized(DefaultConfig(), 4, 544)
	prompt := text(1, 0, 2000)
	until := func(want, most int) (legs int) {
		for s.c.BlockBytes() != want && legs < most {
			legs++
			s.send(prompt)
		}
		return legs
	}
	if n := until(2048, 1000); n < sizeFirst || n > 2*sizeFirst {
		t.Fatalf("blocks of 2048 bytes after %d legs, want some %d", n, sizeFirst)
	}
	s.tokenBytes = 1
	if until(512, sizeAgain/2); s.c.BlockBytes() != 2048 {
		t.Fatalf("blocks are %d bytes long after half of the time", s.c.BlockBytes())
	}
	s.tokenBytes = 4
	until(512, 500)
	s.tokenBytes = 1
	if n := until(512, 2*sizeAgain); n < sizeAgain || n > sizeAgain+1000 {
		t.Errorf("blocks of 512 bytes after %d legs more, want some %d", n, sizeAgain)
	}
}

// TestAChangeForgets: no chain of the old blocks is believed to be anywhere, and
// a request that was under way meanwhile teaches nothing wrong.
func TestAChangeForgets(t *testing.T) {
	s := newSized(DefaultConfig(), 4, 544)
	prompt := text(1, 0, 40_000)
	s.send(prompt)
	if got := s.send(prompt); got != 40_000/BlockBytes {
		t.Fatalf("%d blocks are believed to be cached", got)
	}
	old := workers.Prompt{Chain: Chain(nil, nil, [][]byte{prompt}, BlockBytes), Block: BlockBytes, Bytes: len(prompt)}
	late := s.lease(s.c.Choose(workers.Need{Prompt: old, At: s.now}, s.pools))
	s.c.useBlocks(2048)
	if s.c.BlockBytes() != 2048 {
		t.Fatalf("blocks are %d bytes long, want 2048", s.c.BlockBytes())
	}

	s.c.Ended(0, workers.Prefilled{At: s.now, Prompt: old, Expect: late.Expect, OK: true, Tokens: 10_000, Cached: 0})
	if share := s.c.at(0).keep.share; share != 1 {
		t.Errorf("a leg of before the change taught that the engine keeps %v of its blocks", share)
	}
	if got := s.sendPrompt(old, old); got != 0 {
		t.Errorf("%d blocks of the old length are believed to be cached", got)
	}
	if n, _ := s.c.at(0).held.size(); n != 0 {
		t.Errorf("%d blocks of the old length are noted", n)
	}
	if got := s.send(prompt); got != 0 {
		t.Errorf("%d blocks are believed to be cached after the change", got)
	}
	if got := s.send(prompt); got != 40_000/2048 {
		t.Errorf("%d blocks of the new length are believed to be cached, want %d", got, 40_000/2048)
	}
	if count, limit := s.c.at(0).held.size(); limit > 100_000*4/2048+1 {
		t.Errorf("%d of %d blocks are noted, want no more than the engine has", count, limit)
	}
}

// TestLargeEngineBlocksTeachNothingWrong: an engine that reuses blocks of 512
// tokens finds less than what two prompts share, and keeps all the same.
func TestLargeEngineBlocksTeachNothingWrong(t *testing.T) {
	k := newKeep(10_000)
	for range 1000 {
		k.saw(7, 7, 4, 5000, 4)
	}
	if k.share != 1 {
		t.Errorf("the share is %v, want 1", k.share)
	}
}

// TestTextThatAgreesSharesItsWholeBlocks: in n bytes there are n/block blocks,
// whatever comes behind and in what pieces.
func TestTextThatAgreesSharesItsWholeBlocks(t *testing.T) {
	d := &dice{state: 5}
	for range 200 {
		stem, block := d.below(20_000), leastBlock<<d.below(4)
		a, b := text(1, stem&^7, stem&^7+d.below(5000)), text(2, stem&^7, stem&^7+d.below(5000))
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		cut := d.below(len(b) + 1)
		x, y := Chain(nil, nil, [][]byte{a}, block), Chain(nil, nil, [][]byte{b[:cut], nil, b[cut:]}, block)
		shared := 0
		for shared < min(len(x), len(y)) && x[shared] == y[shared] {
			shared++
		}
		if shared != same/block {
			t.Fatalf("texts that agree in %d bytes share %d blocks of %d, want %d", same, shared, block, same/block)
		}
	}
}

func TestStickyOf(t *testing.T) {
	if StickyOf("a") == StickyOf("b") || StickyOf("a") != StickyOf([]byte("a")) || StickyOf("") == 0 {
		t.Error("names are told apart by their text alone, and are never 0")
	}
	long := []byte("a session with a name that is longer than what fits on a stack")
	if n := testing.AllocsPerRun(100, func() { StickyOf(long) }); n > 1 {
		t.Errorf("StickyOf makes %v allocations", n)
	}
}
