//go:build !amd64

package transfer

func skipPlain(b []byte) (n int, beyondASCII bool) { return plainWords(b) }
