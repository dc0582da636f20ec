package transfer

// skipPlain goes over the beginning of b, 16 bytes at a time, as long as there
// is no quote, backslash or control character in them and 32 are left. It
// returns how many bytes that are, and whether any of them is not ASCII. Where
// in the next 16 it stopped is left to the caller: to tell it took longer.
//
// It is plainWords in SSE2, which every amd64 has, in half the time or less: the
// scan is the most that a long prompt costs.
//
//go:noescape
func skipPlain(b []byte) (n int, beyondASCII bool)
