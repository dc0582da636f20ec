package transfer

// skipPlain goes over the beginning of b, a window at a time, as long as there is
// no quote, backslash or control character in it. It returns how many bytes that
// are, and marks such bytes in the window behind; special is 0 if there is no
// whole window any more. BeyondASCII is about all that it looked at.
//
// It is plainWords in SSE2, which every amd64 has, in a third of the time: the
// scan is the most that a long prompt costs.
//
//go:noescape
func skipPlain(b []byte) (n int, special, slash uint64, beyondASCII bool)
