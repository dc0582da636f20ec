package exchange

import (
	"bufio"
	"bytes"
	"io"
	"net/http/httputil"
	"testing"
)

// FuzzChunked gives the same bytes in pieces of every size, and to the standard
// library's reader: what we take it takes, and finds the same body in it.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n00\r\nDigest: x\r\n\r\nrest", "1\r\na\r\n1\r\nb\r\n0\r\n\r\n", "5\r\nhello\r\n",
		"A\r\n0123456789\r\n0\r\n\r\n", "fffffffffffffffff\r\n", "2\nab\n0\n\n", "-1\r\n", "5 \r\nhello\r\n0\r\n\r\n", "0\r\n x\r\n\r\n", "0;\x00\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(1))
		f.Add([]byte(s), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		whole, wholeOK := stripAll(text, len(text)+1)
		got, ok := stripAll(text, int(size)+1)
		if !bytes.Equal(got, whole) || ok != wholeOK {
			t.Fatalf("strip(%q) in pieces of %d = %q, %t, in one %q, %t", text, int(size)+1, got, ok, whole, wholeOK)
		}
		if !ok {
			return
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(bytes.NewReader(text))))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("strip(%q) = %q, the library's reader says %q, %v", text, got, want, err)
		}
	})
}

// stripAll strips a body that comes in pieces of that size, and reports whether
// it came to its end.
func stripAll(text []byte, size int) (body []byte, ok bool) {
	var c chunks
	for len(text) > 0 {
		piece := bytes.Clone(text[:min(size, len(text))])
		text = text[len(piece):]
		n, err := c.strip(piece)
		body = append(body, piece[:n]...)
		if err != nil {
			return body, false
		}
	}
	return body, c.ended()
}

func TestStripAllocatesNothing(t *testing.T) {
	text := []byte("5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX: y\r\n\r\n")
	piece := make([]byte, len(text))
	got := testing.AllocsPerRun(100, func() {
		var c chunks
		copy(piece, text)
		if n, err := c.strip(piece); n != 11 || err != nil || !c.ended() {
			t.Fatalf("strip = %d, %v", n, err)
		}
	})
	if got > 0 {
		t.Errorf("strip allocates %v times, want 0", got)
	}
}
