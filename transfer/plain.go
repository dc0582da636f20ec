package transfer

import "math/bits"

// window is how many bytes of a string are looked at together: a word has a bit
// for each of them, the first the lowest.
const window = 64

// plainWords is skipPlain where there is no better way.
func plainWords(b []byte) (n int, special, slash uint64, beyondASCII bool) {
	var seen uint64
	for ; n+window <= len(b); n += window {
		var found uint64
		for k := n; k < n+window; k += 8 {
			x := word(b[k:])
			found |= specials(x)
			seen |= x
		}
		if found&highs != 0 {
			special, slash = marks(b[n : n+window])
			break
		}
	}
	return n, special, slash, seen&highs != 0
}

// marks marks the bytes that do not stand for themselves in a string, and those
// of them that are backslashes.
func marks(w []byte) (special, slash uint64) {
	for k, c := range w {
		if c == '\\' {
			slash |= 1 << k
		}
		if c == '\\' || c == '"' || c < ' ' {
			special |= 1 << k
		}
	}
	return special, slash
}

// inside returns how much of a window w belongs to the string that it begins
// inside of: up to the quote that ends it, or up to what is for others to judge,
// a control character or a backslash with more than one letter behind it, or
// behind which the window ends.
func inside(w []byte, special, slash uint64) int {
	escaped := escapedBy(slash)
	end := bits.TrailingZeros64(special &^ slash &^ escaped)
	for m := escaped & (1<<end - 1); m != 0; m &= m - 1 {
		if k := bits.TrailingZeros64(m); !isLetterOfEscape(w[k]) {
			return k - 1
		}
	}
	if end == window && slash&^escaped>>(window-1) != 0 {
		return window - 1
	}
	return end
}

// escapedBy marks the bytes behind a backslash that is not itself escaped, the
// first byte never. In a run of backslashes every second one is: the subtraction
// turns over each run that begins at an even place and ends it where it should
// (John Keiser's way, of simdjson).
func escapedBy(slash uint64) uint64 {
	const odd = 0xaaaaaaaaaaaaaaaa
	return ((slash<<1 | odd) - slash) ^ odd ^ slash
}

// isLetterOfEscape tells whether c is all that follows the backslash of an escape.
func isLetterOfEscape(c byte) bool {
	const (
		low  = 1<<'"' | 1<<'/'
		high = 1<<('\\'-64) | 1<<('b'-64) | 1<<('f'-64) | 1<<('n'-64) | 1<<('r'-64) | 1<<('t'-64)
	)
	return (uint64(low)>>c|uint64(high)>>(c-64))&1 != 0
}
