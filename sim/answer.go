package sim

import "strings"

// The natural length of an answer is between these numbers of tokens, by its
// prompt. Then the model would say that it is done.
const (
	minNatural = 8
	maxNatural = 31
)

// eosToken is the id of the token with which a model ends its answer.
const eosToken = 2

// Answer returns the tokens with which an engine answers the plain text
// prompt, at most maxTokens of them; the model may stop earlier by itself.
func Answer(prompt string, maxTokens int) []string {
	id := textPrompt(prompt).identity()
	return words(id, min(maxTokens, naturalLength(id)))
}

// Text returns the first n tokens of the answer to the plain text prompt, as
// one string: what an engine says that was told to ignore the end.
func Text(prompt string, n int) string {
	return strings.Join(words(textPrompt(prompt).identity(), n), "")
}

// Expect returns the text that the engines must answer to a client's body on
// an endpoint (its path), one per prompt of it. A tool call is returned as its
// arguments.
func Expect(path string, body []byte) ([]string, error) {
	r, err := parse(path, body)
	if err != nil {
		return nil, err
	}
	if err := r.check(DefaultConfig().ContextLength); err != nil {
		return nil, err
	}
	texts := make([]string, len(r.prompts))
	for i, p := range r.prompts {
		id := p.identity()
		n, _ := r.length(id, DefaultConfig().ContextLength-len(p.tokens))
		texts[i] = strings.Join(r.tokens(id, n), "")
		if r.echo {
			texts[i] = p.text + texts[i]
		}
	}
	return texts, nil
}

// words returns the first n tokens of the answer to the prompt id.
func words(id uint64, n int) []string {
	tokens := make([]string, n)
	for i := range tokens {
		tokens[i] = word(id, i)
	}
	return tokens
}

// word returns token i of the answer to the prompt id: a word of two or three
// syllables, with a space before it but at the start.
func word(id uint64, i int) string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	bits := mix(id + uint64(i)*hashPrime)
	var w [8]byte
	n := 0
	if i > 0 {
		w[n] = ' '
		n++
	}
	for range 2 + bits&1 {
		bits >>= 1
		w[n] = consonants[bits%uint64(len(consonants))]
		bits /= uint64(len(consonants))
		w[n+1] = vowels[bits%uint64(len(vowels))]
		bits /= uint64(len(vowels))
		n += 2
	}
	return string(w[:n])
}

// wordID returns the token id of a word, for bodies that carry ids.
func wordID(id uint64, i int) int { return 3 + int(mix(id+uint64(i)*hashPrime)%32000) }

// naturalLength returns after how many tokens the model ends its answer.
func naturalLength(id uint64) int {
	return minNatural + int(mix(id)%(maxNatural-minNatural+1))
}

// mix scatters the bits of x (the end of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
