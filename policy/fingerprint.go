package policy

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

const (
	// BlockBytes is the length of a fingerprint's block as long as nothing better
	// is known: about 128 tokens of English at four bytes each.
	BlockBytes = 512

	// keyBytes is how much of a prompt makes a key. Prompts that agree in these
	// 4 KiB, such as the turns of one conversation, go together; more would
	// part them again as soon as they grow.
	keyBytes = 4 << 10

	keyBlocks = keyBytes / BlockBytes
)

// A Fingerprint is what a policy knows of a prompt.
type Fingerprint struct {
	// Key is equal for prompts that begin with the same blocks. It is zero
	// for a prompt shorter than one block: an engine has no block to reuse
	// for it, so it does not matter where it goes.
	Key uint64

	// Blocks is how many blocks went into Key.
	Blocks int
}

// Take returns the fingerprint of a prompt, given in pieces, as if they stood
// in one. The seed tells apart what must not share KV blocks however alike the
// prompts are: the model, an adapter, a cache salt. It is a chain, as the
// engines' own: h[i] = xxh64(h[i-1] || block[i]).
func Take(seed, prompt [][]byte) Fingerprint {
	var (
		f      Fingerprint
		digest xxhash.Digest
		filled int
		chain  = seeded(seed)
	)
	digest.ResetWithSeed(chain)
	for _, piece := range prompt {
		for len(piece) > 0 && f.Blocks < keyBlocks {
			n := min(BlockBytes-filled, len(piece))
			_, _ = digest.Write(piece[:n]) // never fails
			piece, filled = piece[n:], filled+n
			if filled == BlockBytes {
				chain = digest.Sum64()
				digest.ResetWithSeed(chain)
				f.Blocks, filled = f.Blocks+1, 0
			}
		}
	}
	if f.Blocks > 0 {
		f.Key = max(chain, 1)
	}
	return f
}

// Chain appends to dst the chain of a prompt's whole blocks of that many bytes,
// as Take hashes them. It allocates nothing if dst has room.
func Chain(dst []uint64, seed, prompt [][]byte, blockBytes int) []uint64 {
	var (
		digest xxhash.Digest
		filled int
		chain  = seeded(seed)
	)
	digest.ResetWithSeed(chain)
	for _, piece := range prompt {
		for len(piece) > 0 {
			n := min(blockBytes-filled, len(piece))
			_, _ = digest.Write(piece[:n]) // never fails
			piece, filled = piece[n:], filled+n
			if filled == blockBytes {
				chain = digest.Sum64()
				dst = append(dst, chain)
				digest.ResetWithSeed(chain)
				filled = 0
			}
		}
	}
	return dst
}

// seeded returns the hash that a chain begins with.
func seeded(seed [][]byte) uint64 {
	var digest xxhash.Digest
	chain := uint64(0)
	for _, piece := range seed {
		digest.ResetWithSeed(chain)
		_, _ = digest.Write(piece) // never fails
		chain = digest.Sum64()
	}
	return chain
}

// KeyOf returns the key of a chain of blocks of that many bytes: equal for
// prompts that begin alike, 0 for one shorter than a block.
func KeyOf(chain []uint64, blockBytes int) uint64 {
	if len(chain) == 0 {
		return 0
	}
	return max(chain[min(len(chain), max(keyBytes/blockBytes, 1))-1], 1)
}

// StickyOf returns what stands for a routing key or session in a Need.
func StickyOf[T string | []byte](name T) uint64 {
	var digest xxhash.Digest
	digest.Reset()
	_, _ = digest.WriteString(string(name)) // never fails
	return max(digest.Sum64(), 1)
}

// ChainOf returns the chain of blocks that are known by ids, as in traces.
func ChainOf(ids []int64) []uint64 {
	chain := make([]uint64, len(ids))
	var last [16]byte
	for i, id := range ids {
		binary.LittleEndian.PutUint64(last[8:], uint64(id))
		chain[i] = xxhash.Sum64(last[:])
		binary.LittleEndian.PutUint64(last[:8], chain[i])
	}
	return chain
}
