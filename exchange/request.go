package exchange

import (
	"fmt"
	"net/textproto"
	"strconv"
	"time"
)

// A Field is one header line.
type Field struct{ Name, Value string }

// A Request is one request to a worker.
type Request struct {
	// Method is POST when empty.
	Method string

	// Path is what stands in the request line: path and query, beginning with
	// a slash, escaped as it is to be sent.
	Path string

	// Header is written as it is, in its order. Host, Content-Length and what
	// else frames a message or rules a connection is exchange's own and refused
	// here.
	Header []Field

	// Body is written fragment by fragment and never changed. It may be read
	// until Do has returned an error, or else until the answer was closed.
	Body [][]byte

	// FirstByte bounds the time from the first byte written to the end of the
	// answer's head. Zero: no bound but the context.
	FirstByte time.Duration
}

// method returns the request's method, which is never empty.
func (r *Request) method() string {
	if r.Method == "" {
		return "POST"
	}
	return r.Method
}

// size returns the length of the body.
func (r *Request) size() int {
	n := 0
	for _, fragment := range r.Body {
		n += len(fragment)
	}
	return n
}

// check finds what would make another message of this one.
func (r *Request) check() error {
	if !isToken(r.method()) {
		return fmt.Errorf("%w: method %q", ErrRequest, r.Method)
	}
	if !isTarget(r.Path) {
		return fmt.Errorf("%w: path %q", ErrRequest, r.Path)
	}
	for _, f := range r.Header {
		if !isToken(f.Name) {
			return fmt.Errorf("%w: header name %q", ErrRequest, f.Name)
		}
		if isOurs(f.Name) {
			return fmt.Errorf("%w: header %s is not the caller's to set", ErrRequest, f.Name)
		}
		// The value is not quoted: it may be a key.
		if !isFieldValue(f.Value) {
			return fmt.Errorf("%w: control character in header %s", ErrRequest, f.Name)
		}
	}
	return nil
}

// appendHead appends request line and header lines to b.
func (r *Request) appendHead(b []byte, host string, size int) []byte {
	b = append(b, r.method()...)
	b = append(b, ' ')
	b = append(b, r.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)
	for _, f := range r.Header {
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
		b = append(b, "\r\n"...)
	}
	if size > 0 || r.method() == "POST" || r.method() == "PUT" {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(size), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// isOurs reports whether a header is exchange's own to write, or not to.
func isOurs(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Host", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Expect",
		"Connection", "Keep-Alive", "Proxy-Connection", "Upgrade":
		return true
	}
	return false
}

// isToken reports whether s is a token (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return false
}

// isTarget reports whether s can stand in a request line.
func isTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != "" && s[0] == '/'
}

// isFieldValue reports whether s can stand behind a header's colon.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
