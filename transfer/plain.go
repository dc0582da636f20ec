package transfer

// plainWords goes over the beginning of b as long as 32 bytes at a time stand
// for themselves in a string. It returns how many bytes that are, and whether
// any of them is not ASCII. It is what skipPlain does where there is no better way.
func plainWords(b []byte) (n int, beyondASCII bool) {
	var seen uint64
	for ; n+32 <= len(b); n += 32 {
		w, x, y, z := word(b[n:]), word(b[n+8:]), word(b[n+16:]), word(b[n+24:])
		if (special(w)|special(x)|special(y)|special(z))&highs != 0 {
			break
		}
		seen |= w | x | y | z
	}
	return n, seen&highs != 0
}
