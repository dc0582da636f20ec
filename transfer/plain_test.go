package transfer

import (
	"bytes"
	"testing"
)

// TestPlainStopsBeforeTheFirstSpecialByte puts each byte at each place of a
// text and asks both ways.
func TestPlainStopsBeforeTheFirstSpecialByte(t *testing.T) {
	for _, size := range []int{0, 15, 16, 31, 32, 33, 63, 64, 100} {
		for at := range size {
			for c := range 256 {
				b := bytes.Repeat([]byte("a"), size)
				b[at] = byte(c)
				checkPlain(t, b)
			}
		}
	}
}

// checkPlain compares plain with what it is defined by.
func checkPlain(t *testing.T, b []byte) {
	t.Helper()
	n, beyondASCII := skipPlain(b)
	first := -1
	for i, c := range b {
		if c == '"' || c == '\\' || c < ' ' {
			first = i
			break
		}
	}
	if first < 0 {
		first = len(b)
	}
	if n > first || first-n >= 32 && len(b)-n >= 32 {
		t.Fatalf("skipPlain(%q) = %d, want at most %d and less than 32 below it", b, n, first)
	}
	if want := !isASCII(b[:n]); beyondASCII != want {
		t.Fatalf("skipPlain(%q) says beyondASCII = %t of the first %d bytes, want %t", b, beyondASCII, n, want)
	}
	m, _ := plainWords(b)
	if m > first || m > n+16 {
		t.Fatalf("plainWords(%q) = %d, skipPlain = %d, the first special byte is at %d", b, m, n, first)
	}
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("The quick brown fox jumps over the lazy dog. \"Indeed,\" said \\ nobody."))
	f.Add(bytes.Repeat([]byte("\xe4\xbd\xa0"), 30))
	f.Fuzz(checkPlain)
}
