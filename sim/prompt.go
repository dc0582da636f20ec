package sim

// bytesPerToken is how much text makes one token here. A real tokenizer is
// near it for English; that it is fixed lets a test count tokens by hand.
const bytesPerToken = 4

// A prompt is what a request asks to be computed: a row of tokens. A text is
// cut into tokens of bytesPerToken bytes, the last one padded with zeros.
type prompt struct {
	tokens []uint32 // one per token; for a text its bytes, little endian
	seed   uint64   // parts the caches of different salts, as a real engine does
	text   string   // as it was given; empty for token ids
}

// textPrompt returns the prompt of a text.
func textPrompt(text string) prompt {
	tokens := make([]uint32, 0, (len(text)+bytesPerToken-1)/bytesPerToken)
	rest := text
	for ; len(rest) >= bytesPerToken; rest = rest[bytesPerToken:] {
		tokens = append(tokens, uint32(rest[0])|uint32(rest[1])<<8|uint32(rest[2])<<16|uint32(rest[3])<<24)
	}
	if len(rest) > 0 {
		var last uint32
		for i := range len(rest) {
			last |= uint32(rest[i]) << (8 * i)
		}
		tokens = append(tokens, last)
	}
	return prompt{tokens: tokens, text: text}
}

// prefixes returns, for each block of size tokens and for the last, perhaps
// partial one, the hash of the prompt up to that block's end. The last of them
// is the prompt's identity, whatever the block size.
func (p prompt) prefixes(size int) []uint64 {
	hashes := make([]uint64, 0, (len(p.tokens)+size-1)/size)
	h := firstHash ^ p.seed
	for rest := p.tokens; len(rest) > 0; {
		n := min(size, len(rest))
		for _, token := range rest[:n] {
			h = (h ^ uint64(token)) * hashPrime
			h ^= h >> 29
		}
		hashes = append(hashes, h)
		rest = rest[n:]
	}
	return hashes
}

// identity returns the hash of the whole prompt. It leaves the seed out: a
// cache salt changes what may be shared, not what is answered.
func (p prompt) identity() uint64 {
	p.seed = 0
	hashes := p.prefixes(max(len(p.tokens), 1))
	if len(hashes) == 0 {
		return firstHash
	}
	return hashes[0]
}

// The start and the multiplier of the running hash (FNV's offset, and an odd
// number with well mixed bits). They are the same in every process, because
// decode learns from prefill, by hash, which prompt its blocks hold.
const (
	firstHash = 0xcbf29ce484222325
	hashPrime = 0x9e3779b97f4a7c15
)
