package transfer

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// events cuts a stream into events, fed in reads of the given sizes (the last
// one again and again), and returns what is left over as the last.
func events(stream []byte, sizes ...int) (out []string) {
	var buf []byte
	from := 0
	for i := 0; len(stream) > 0; i++ {
		n := min(len(stream), sizes[min(i, len(sizes)-1)])
		buf = append(buf, stream[:n]...)
		stream = stream[n:]
		for {
			length, resume := NextEvent(buf, from)
			if length == 0 {
				from = resume
				break
			}
			out = append(out, string(buf[:length]))
			buf, from = buf[length:], 0
		}
	}
	return append(out, string(buf))
}

func TestEventsEndAtTheirBlankLine(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []string // the last is what is left over
	}{
		"nothing":                        {"", []string{""}},
		"LF":                             {"data: a\n\ndata: b\n\n", []string{"data: a\n\n", "data: b\n\n", ""}},
		"CRLF":                           {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"data: a\r\n\r\n", "data: b\r\n\r\n", ""}},
		"CR":                             {"data: a\r\rdata: b\r\r", []string{"data: a\r\r", "data: b\r\r", ""}},
		"several lines":                  {"event: x\ndata: a\ndata: b\n\n", []string{"event: x\ndata: a\ndata: b\n\n", ""}},
		"a comment":                      {": keep-alive\n\ndata: a\n\n", []string{": keep-alive\n\n", "data: a\n\n", ""}},
		"not whole yet":                  {"data: a\n\ndata: b\n", []string{"data: a\n\n", "data: b\n"}},
		"a CRLF that is not whole yet":   {"data: a\r\n\r", []string{"data: a\r\n\r"}},
		"blank lines before an event":    {"\n\r\n\rdata: a\n\n", []string{"\n", "\r\n", "\r", "data: a\n\n", ""}},
		"line ends mixed":                {"data: a\r\n\ndata: b\n\rdata: c\r\r", []string{"data: a\r\n\n", "data: b\n\r", "data: c\r\r", ""}},
		"a LF behind a blank line of CR": {"data: a\r\r\ndata: b\n\n", []string{"data: a\r\r", "\n", "data: b\n\n", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 1000} {
				if got := events([]byte(c.stream), size); !slices.Equal(got, c.want) {
					t.Errorf("%d bytes a read: %q, want %q", size, got, c.want)
				}
			}
		})
	}
}

// TestCharactersCutApartStayWhole is BUG-047: a read ends inside a character.
func TestCharactersCutApartStayWhole(t *testing.T) {
	stream := "data: {\"delta\":\"你😀\"}\n\n"
	if got := strings.Join(events([]byte(stream), 1), ""); got != stream {
		t.Errorf("stream = %q, want %q", got, stream)
	}
}

// TestAStreamFedByteByByteIsSearchedOnce: a large event that comes in small
// reads must not cost the square of its length.
func TestAStreamFedByteByByteIsSearchedOnce(t *testing.T) {
	buf := []byte("data: " + strings.Repeat("x", 1<<20))
	for from, n := 0, 1; n <= len(buf); n++ {
		length, resume := NextEvent(buf[:n], from)
		if length != 0 || resume < n-1 {
			t.Fatalf("NextEvent of %d bytes = %d, %d, want to resume at the end", n, length, resume)
		}
		from = resume
	}
}

// FuzzEvents: events put together are the stream, and do not depend on how it
// was cut into reads.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\n: c\n\ndata: b\r\r\n\n"), uint8(1), uint8(3))
	f.Add([]byte("\r\n\r\r\n\n"), uint8(2), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, first, rest uint8) {
		whole := events(stream, max(1, len(stream)))
		if got := strings.Join(whole, ""); got != string(stream) {
			t.Fatalf("events of %q make %q", stream, got)
		}
		if cut := events(stream, int(first)+1, int(rest)+1); !slices.Equal(cut, whole) {
			t.Fatalf("%q in reads of %d and %d: %q, want %q", stream, first+1, rest+1, cut, whole)
		}
		for _, ev := range whole[:len(whole)-1] {
			lines := strings.FieldsFunc(ev, func(r rune) bool { return r == '\r' || r == '\n' })
			if !strings.HasSuffix(ev, "\n") && !strings.HasSuffix(ev, "\r") || len(lines) > 0 && strings.Contains(strings.TrimRight(ev, "\r\n"), "\n\n") {
				t.Fatalf("%q of %q is no event", ev, stream)
			}
		}
	})
}

func TestPayloadOfAnEvent(t *testing.T) {
	for event, want := range map[string]string{
		"data: {\"a\":1}\n\n":                   `{"a":1}`,
		"data:{\"a\":1}\r\n\r\n":                `{"a":1}`,
		"id: 7\revent: x\rdata:  y\r\r":         " y",
		"data: {\"a\":\ndata: 1\ndata: }\n\n":   "{\"a\":\n1\n}",
		": data: no\n\n":                        "",
		"database: no\ndata\n\n":                "",
		"[DONE]":                                "[DONE]",
		"event: message\ndata: [DONE]\nid: 1\n": "[DONE]",
	} {
		if got := payload([]byte(event)); !bytes.Equal(got, []byte(want)) {
			t.Errorf("payload(%q) = %q, want %q", event, got, want)
		}
	}
}
