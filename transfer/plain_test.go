package transfer

import (
	"bytes"
	"strings"
	"testing"
)

// TestPlainStopsAtTheFirstSpecialByte puts each byte at each place of a text and
// asks both ways.
func TestPlainStopsAtTheFirstSpecialByte(t *testing.T) {
	for _, size := range []int{0, 15, 63, 64, 65, 127, 128, 150} {
		for at := range size {
			for c := range 256 {
				b := bytes.Repeat([]byte("a"), size)
				b[at] = byte(c)
				checkPlain(t, b)
			}
		}
	}
}

// checkPlain compares both ways with what they are defined by.
func checkPlain(t *testing.T, b []byte) {
	t.Helper()
	wantN, wantSpecial, wantSlash, wantBeyond := 0, uint64(0), uint64(0), false
	for ; wantN+window <= len(b) && wantSpecial == 0; wantN += window {
		w := b[wantN : wantN+window]
		wantSpecial, wantSlash = marks(w)
		wantBeyond = wantBeyond || !isASCII(w)
	}
	if wantSpecial != 0 {
		wantN -= window
	}
	for name, skip := range map[string]func([]byte) (int, uint64, uint64, bool){"skipPlain": skipPlain, "plainWords": plainWords} {
		n, special, slash, beyond := skip(b)
		if n != wantN || special != wantSpecial || slash != wantSlash || beyond != wantBeyond {
			t.Fatalf("%s(%q) = %d, %x, %x, %t, want %d, %x, %x, %t", name, b, n, special, slash, beyond, wantN, wantSpecial, wantSlash, wantBeyond)
		}
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
	f.Add(bytes.Repeat([]byte("\xe4\xbd\xa0"), 50))
	f.Add([]byte(strings.Repeat(`\\\n\"\u00e9\\`, 10)))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkPlain(t, b)
		if len(b) >= window {
			checkInside(t, b[:window])
		}
	})
}

// checkInside compares inside with going from byte to byte.
func checkInside(t *testing.T, w []byte) {
	t.Helper()
	want := 0
	for want < window && w[want] != '"' && w[want] >= ' ' {
		if w[want] != '\\' {
			want++
			continue
		}
		if want+1 == window || !strings.ContainsRune(`"\/bfnrt`, rune(w[want+1])) {
			break
		}
		want += 2
	}
	special, slash := marks(w)
	if got := inside(w, special, slash); got != want {
		t.Fatalf("inside(%q) = %d, want %d", w, got, want)
	}
}

// TestInside goes through runs of backslashes of every length at every place,
// with each byte behind them.
func TestInside(t *testing.T) {
	for at := range window {
		for run := 0; at+run <= window; run++ {
			for _, c := range []byte(`"\/bfnrtuxa` + "\x00\n\xc3") {
				w := bytes.Repeat([]byte("a"), window)
				copy(w[at:], strings.Repeat(`\`, run))
				if at+run < window {
					w[at+run] = c
				}
				checkInside(t, w)
			}
		}
	}
}
