package exchange

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// A Header is the header lines of an answer as the worker sent them, in their
// order. Names compare without regard to case.
//
// All of it is one string, so that a head costs two allocations however many
// lines it has. A map of them, as net/http makes it, costs eight.
type Header []Field

// Get returns the first value of a header, or nothing.
func (h Header) Get(name string) string {
	for value := range h.Values(name) {
		return value
	}
	return ""
}

// Values returns the values of a header in their order.
func (h Header) Values(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range h {
			if strings.EqualFold(h[i].Name, name) && !yield(h[i].Value) {
				return
			}
		}
	}
}

const (
	// usualFields and usualHead are what engines' heads have, and some more.
	usualFields = 8
	usualHead   = 512
)

// readFields reads header lines up to the empty one. The reader must limit what
// is read.
func readFields(r *bufio.Reader) (Header, error) {
	text, err := readLines(r)
	if err != nil || text == "" {
		return nil, err
	}
	header := make(Header, 0, usualFields)
	for line := range strings.SplitSeq(text, "\n") {
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		switch {
		case !ok || !isToken(name): // a space before the colon too: "Content-Length : 5" is another header to some
			return nil, fmt.Errorf("malformed header name %q", clip([]byte(name)))
		case !isFieldValue(value):
			return nil, fmt.Errorf("control character in header %s", name)
		}
		header = append(header, Field{name, value})
	}
	return header, nil
}

// readLines reads lines up to the empty one. It returns them without their ends,
// a line break between two. One that begins with white space goes on with the one
// before (RFC 9112, 5.2).
func readLines(r *bufio.Reader) (string, error) {
	var text strings.Builder
	for inside := false; ; { // a line, of which there is more than the reader holds
		line, more, err := r.ReadLine()
		if err != nil {
			return "", err
		}
		if !inside {
			if len(line) == 0 {
				return text.String(), nil
			}
			if err := begin(&text, line, r.Buffered()); err != nil {
				return "", err
			}
		}
		text.Write(line)
		inside = more
	}
}

// begin makes text ready for a further line. So much is there to be read behind it.
func begin(text *strings.Builder, line []byte, behind int) error {
	folded := line[0] == ' ' || line[0] == '\t'
	switch {
	case text.Len() > 0 && !folded:
		text.WriteByte('\n')
	case text.Len() > 0:
	case folded:
		return errors.New("malformed header: the first line goes on with one before it")
	default:
		text.Grow(min(len(line)+behind, usualHead))
	}
	return nil
}
