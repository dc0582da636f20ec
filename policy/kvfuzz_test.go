package policy

import (
	"testing"
	"time"

	"pdrouter/workers"
)

// FuzzKVEvents: whatever an engine says, the mirror stays within its bounds.
func FuzzKVEvents(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x10\x20\x30\x00\x00\x01\x01\x01"))
	f.Fuzz(func(t *testing.T, script []byte) {
		cfg := DefaultConfig()
		cfg.MaxBlocks = 64
		k := &asker{c: NewCacheAware(cfg), pools: fleet(1, 1), now: time.Unix(1e9, 0)}
		k.c.KVFollowed(0, 0)
		for len(script) >= 4 {
			op, a, b, c := script[0], script[1], script[2], script[3]
			script = script[4:]
			k.now = k.now.Add(time.Duration(op) * time.Millisecond)
			switch op % 8 {
			case 0, 1, 2:
				e := workers.KVEvent{Kind: workers.KVStored, Parent: uint64(b), Root: op > 128, Size: 1 + int(c%4)}
				for i := range 1 + a%5 {
					e.Hashes = append(e.Hashes, uint64(a+i))
					for range e.Size {
						e.Tokens = append(e.Tokens, uint32(a+i))
					}
				}
				k.c.KVTold(0, int(op>>7), k.now, &e)
			case 3:
				k.c.KVTold(0, 0, k.now, &workers.KVEvent{Kind: workers.KVRemoved, Hashes: []uint64{uint64(a), uint64(b)}})
			case 4, 5, 6:
				chain := chainAt(int(a%5), int(b%3), 1+int(c%8))
				choice := k.ask(chain)
				k.c.Ended(0, workers.Prefilled{At: k.now, Prompt: promptOf(chain), Expect: choice.Expect, OK: a%9 > 0, Tokens: int(b), Cached: int(c) - 1})
			case 7:
				switch a % 4 {
				case 0:
					k.c.KVTold(0, 0, k.now, &workers.KVEvent{Kind: workers.KVCleared})
				case 1:
					k.c.KVLost(0, 0)
				default:
					k.c.KVFollowed(0, int(b%64))
				}
			}
			m := k.c.mirrors.at(0)
			if len(m.stored) > 64 || len(m.runs) > maxRuns || len(m.legs) > maxLegs || len(m.names.at) > 8 {
				t.Fatalf("%d blocks, %d runs, %d legs, %d names", len(m.stored), len(m.runs), len(m.legs), len(m.names.at))
			}
		}
	})
}

// BenchmarkKVStored takes in events of 128 blocks of 16 tokens.
func BenchmarkKVStored(b *testing.B) {
	c := NewCacheAware(DefaultConfig())
	c.KVFollowed(0, 0)
	e := workers.KVEvent{Kind: workers.KVStored, Root: true, Size: 16, Hashes: make([]uint64, 128), Tokens: make([]uint32, 128*16)}
	now, n := time.Unix(1e9, 0), uint64(0)
	for b.Loop() {
		for i := range e.Hashes {
			n++
			e.Hashes[i] = n % (1 << 18)
		}
		c.KVTold(0, 0, now, &e)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/128, "ns/block")
}
