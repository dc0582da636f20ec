package policy

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pdrouter/workers"

	"github.com/tinylib/msgp/msgp"
)

// A kvEngine is a model of an engine: its cache is a tree of blocks, of which
// it drops the leaf that was used least recently. It publishes what it does.
type kvEngine struct {
	size   int // tokens of a block
	most   int // blocks
	blocks map[uint64]*kvBlock
	clock  int
	events [][]byte // that are not published yet
	arrays bool     // the older form
	tell   func(e *workers.KVEvent)
}

type kvBlock struct {
	parent uint64
	kids   int
	used   int
}

// hashes are the engine's names for a prompt's whole blocks.
func (k *kvEngine) hashes(tokens []uint32) []uint64 {
	var all []uint64
	h := uint64(12345)
	for i := 0; i+k.size <= len(tokens); i += k.size {
		for _, id := range tokens[i : i+k.size] {
			h = (h ^ uint64(id)) * 1099511628211
			h ^= h >> 29
		}
		all = append(all, h)
	}
	return all
}

// holds returns how many tokens a prompt begins with that are cached.
func (k *kvEngine) holds(hashes []uint64) int {
	for i, h := range hashes {
		if k.blocks[h] == nil {
			return i * k.size
		}
	}
	return len(hashes) * k.size
}

// compute computes a prompt, and returns how many of its tokens were cached.
// What is new is stored in pieces, as with chunked prefill.
func (k *kvEngine) compute(tokens []uint32, pieces int) (cached int) {
	hashes := k.hashes(tokens)
	cached = min(k.holds(hashes), (len(tokens)-1)/k.size*k.size)
	k.clock++
	parent := uint64(0)
	var fresh []uint64
	for i, h := range hashes {
		b := k.blocks[h]
		if b == nil {
			b = &kvBlock{parent: parent}
			k.blocks[h] = b
			if p := k.blocks[parent]; p != nil {
				p.kids++
			}
			fresh = append(fresh, h)
		}
		b.used = k.clock
		parent = h
		if last := i == len(hashes)-1; len(fresh) > 0 && (last || len(fresh) > len(hashes)/pieces) {
			first := i + 1 - len(fresh)
			before := uint64(0)
			if first > 0 {
				before = hashes[first-1]
			}
			k.events = append(k.events, k.stored(fresh, before, first == 0, tokens[first*k.size:(i+1)*k.size]))
			fresh = nil
		}
	}
	k.evict()
	return cached
}

// underWay is how many prompts are so at a time: their blocks are in use.
const underWay = 4

func (k *kvEngine) evict() {
	for over := true; over && len(k.blocks) > k.most; {
		var leaves []uint64
		for h, b := range k.blocks {
			if b.kids == 0 && b.used < k.clock-underWay {
				leaves = append(leaves, h)
			}
		}
		slices.SortFunc(leaves, func(a, b uint64) int {
			return cmp.Or(cmp.Compare(k.blocks[a].used, k.blocks[b].used), cmp.Compare(a, b))
		})
		for _, h := range leaves[:min(len(leaves), len(k.blocks)-k.most)] {
			if p := k.blocks[k.blocks[h].parent]; p != nil {
				p.kids--
			}
			delete(k.blocks, h)
			k.events = append(k.events, k.removed(h))
		}
		over = len(leaves) > 0
	}
}

func (k *kvEngine) clear() {
	clear(k.blocks)
	if k.arrays {
		k.events = append(k.events, msgp.AppendString(msgp.AppendArrayHeader(nil, 1), "AllBlocksCleared"))
	} else {
		k.events = append(k.events, msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "type"), "AllBlocksCleared"))
	}
}

func appendHashes(b []byte, hashes []uint64) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(hashes)))
	for _, h := range hashes {
		b = msgp.AppendInt64(b, int64(h))
	}
	return b
}

func (k *kvEngine) stored(hashes []uint64, parent uint64, root bool, tokens []uint32) []byte {
	var b []byte
	field := func(name string) {
		if !k.arrays {
			b = msgp.AppendString(b, name)
		}
	}
	if k.arrays {
		b = msgp.AppendArrayHeader(b, 6)
	} else {
		b = msgp.AppendMapHeader(b, 6)
	}
	field("type")
	b = msgp.AppendString(b, "BlockStored")
	field("block_hashes")
	b = appendHashes(b, hashes)
	field("parent_block_hash")
	if root {
		b = msgp.AppendNil(b)
	} else {
		b = msgp.AppendInt64(b, int64(parent))
	}
	field("token_ids")
	b = msgp.AppendArrayHeader(b, uint32(len(tokens)))
	for _, id := range tokens {
		b = msgp.AppendUint32(b, id)
	}
	field("block_size")
	b = msgp.AppendInt(b, k.size)
	field("lora_id")
	return msgp.AppendNil(b)
}

func (k *kvEngine) removed(hash uint64) []byte {
	if k.arrays {
		return appendHashes(msgp.AppendString(msgp.AppendArrayHeader(nil, 2), "BlockRemoved"), []uint64{hash})
	}
	b := msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(nil, 2), "type"), "BlockRemoved")
	return appendHashes(msgp.AppendString(b, "block_hashes"), []uint64{hash})
}

// publish has the events read as they would be read from the wire.
func (k *kvEngine) publish(t *testing.T) {
	t.Helper()
	b := msgp.AppendArrayHeader(msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1.5), uint32(len(k.events)))
	for _, e := range k.events {
		b = append(b, e...)
	}
	k.events = nil
	var r workers.KVReader
	if n, err := r.Read(msgp.AppendInt(b, 0), k.tell); err != nil || n.Malformed > 0 {
		t.Fatalf("reading it: %+v, %v", n, err)
	}
}

// tokensOf returns tokens whose text is that of length bytes each.
func textOf(tokens []uint32, length func(id uint32) int) []byte {
	var text []byte
	for _, id := range tokens {
		word := binary.LittleEndian.AppendUint32(nil, id)
		for len(word) < length(id) {
			word = append(word, byte(len(word)))
		}
		text = append(text, word[:length(id)]...)
	}
	return text
}

// A kvTest is a worker whose events are followed, and the prompts it was sent.
type kvTest struct {
	*asker
	t       *testing.T
	engine  *kvEngine
	length  func(id uint32) int
	prompts []kvPrompt
}

// A kvPrompt is a prompt as tokens, as the engine's blocks and as ours.
type kvPrompt struct {
	tokens        []uint32
	hashes, chain []uint64
	bytes         int
}

func newKVTest(t *testing.T, size, most int, length func(uint32) int) *kvTest {
	k := &kvTest{asker: newAsker(1, 1), t: t, length: length}
	k.engine = &kvEngine{size: size, most: most, blocks: map[uint64]*kvBlock{}}
	k.engine.tell = func(e *workers.KVEvent) { k.c.KVTold(0, 0, k.now, e) }
	return k
}

func (k *kvTest) prompt(tokens []uint32) kvPrompt {
	text := textOf(tokens, k.length)
	return kvPrompt{tokens, k.engine.hashes(tokens), Chain(nil, nil, [][]byte{text}, BlockBytes), len(text)}
}

// prefill sends a prompt through the worker. The events come before its end, or
// late, after it.
func (k *kvTest) prefill(of kvPrompt, late, tells bool) {
	tokens := of.tokens
	need := workers.Need{Prompt: workers.Prompt{Chain: of.chain, Bytes: of.bytes}, At: k.now}
	choice := k.lease(k.c.Choose(need, k.pools))
	k.now = k.now.Add(100 * time.Millisecond)
	cached := k.engine.compute(tokens, 3)
	if !late {
		k.engine.publish(k.t)
	}
	k.pools[0].Prefill[0].InFlight--
	k.pools[0].Decode[0].InFlight--
	p := workers.Prefilled{At: k.now, Prompt: need.Prompt, Expect: choice.Expect, OK: true, Tokens: len(tokens), Cached: cached}
	if !tells {
		p.Cached = -1
	}
	k.c.Ended(0, p)
	if late {
		k.engine.publish(k.t)
	}
}

// off returns by how many blocks the index is off the truth about a prompt.
func (k *kvTest) off(p kvPrompt) int {
	truth := int(float64(k.engine.holds(p.hashes)) * float64(p.bytes) / float64(len(p.tokens)) / BlockBytes)
	return k.c.at(0).held.match(p.chain, 0) - truth
}

func randomTokens(rng *rand.Rand, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = rng.Uint32N(50000)
	}
	return tokens
}
