//go:build !amd64

package transfer

func skipPlain(b []byte) (n int, special, slash uint64, beyondASCII bool) { return plainWords(b) }
