package bench

const (
	// BlockTokens is how many tokens of a prompt an id of a trace stands for,
	// if it does not say otherwise.
	BlockTokens = 512

	// BytesPerToken is how much text is made for one token. It is near what
	// tokenizers make of English, and exactly what package sim counts. A real
	// tokenizer cuts these made-up words into more tokens.
	BytesPerToken = 4
)

// Prompt returns a text of the request's InputLength tokens. Where two
// requests have the same ids from the beginning, so are their texts.
func (r Request) Prompt() string {
	text := make([]byte, 0, r.InputLength*BytesPerToken+maxWord)
	for i, id := range r.HashIDs {
		end := len(text) + r.blockLength(i)*BytesPerToken
		text = appendWords(text, uint64(id), end)
	}
	return string(text)
}

// Text returns a text of that many tokens, another one for each id.
func Text(id int64, tokens int) string {
	end := tokens * BytesPerToken
	return string(appendWords(make([]byte, 0, end+maxWord), uint64(id), end))
}

// maxWord is the length of the longest word, with the space after it.
const maxWord = 9

// appendWords appends words that depend on id, and cuts them at end. There is
// nothing in them that JSON would escape.
func appendWords(text []byte, id uint64, end int) []byte {
	const consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
	for state := mix(id + 1); len(text) < end; {
		state += 0x9e3779b97f4a7c15
		bits := mix(state)
		for range 1 + bits&3 {
			bits >>= 2
			text = append(text, consonants[bits%uint64(len(consonants))])
			bits /= uint64(len(consonants))
			text = append(text, vowels[bits%uint64(len(vowels))])
			bits /= uint64(len(vowels))
		}
		text = append(text, ' ')
	}
	return text[:end]
}

// mix scatters the bits of x (the end of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
