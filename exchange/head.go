package exchange

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A head is what comes before the body of an answer.
type head struct {
	status int
	minor  int // of HTTP/1.x
	header Header
}

// readHead reads one head. The reader must limit what is read.
func readHead(r *bufio.Reader) (head, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return head{}, cut(err)
	}
	h, err := parseStatusLine(line)
	if err != nil {
		return head{}, err
	}
	if h.header, err = readFields(r); err != nil {
		return head{}, cut(err)
	}
	return h, nil
}

// parseStatusLine takes apart "HTTP/1.1 200 OK\r\n". The reason may be absent.
func parseStatusLine(line []byte) (head, error) {
	s := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	version, rest, _ := bytes.Cut(s, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	h := head{}
	switch string(version) {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		return head{}, fmt.Errorf("malformed status line %q", clip(s))
	}
	if len(code) != 3 {
		return head{}, fmt.Errorf("malformed status line %q", clip(s))
	}
	for _, c := range code {
		if c < '0' || c > '9' {
			return head{}, fmt.Errorf("malformed status line %q", clip(s))
		}
		h.status = 10*h.status + int(c-'0')
	}
	if h.status < 100 {
		return head{}, fmt.Errorf("malformed status line %q", clip(s))
	}
	return h, nil
}

// A framing is how the body of an answer ends.
type framing struct {
	chunked bool
	length  int64 // of the body; -1: not told
	close   bool  // the connection ends with this answer
}

// framing works it out (RFC 9112, 6.3). What could be read in two ways is an
// error, not a guess.
func (h head) framing(method string) (framing, error) {
	f := framing{length: -1, close: h.closes()}
	length, err := contentLength(h.header.Values("Content-Length"))
	if err != nil {
		return f, err
	}
	coding := slices.Collect(h.header.Values("Transfer-Encoding"))
	switch {
	case len(coding) == 0:
	case h.minor == 0:
		return f, errors.New("transfer-encoding in HTTP/1.0")
	case length >= 0:
		return f, errors.New("both content-length and transfer-encoding")
	case len(coding) > 1 || !strings.EqualFold(coding[0], "chunked"):
		return f, fmt.Errorf("transfer-encoding %q", clip([]byte(strings.Join(coding, ", "))))
	}
	switch {
	case method == "HEAD", h.status == http.StatusNoContent, h.status == http.StatusNotModified:
		f.length = 0
	case len(coding) > 0:
		f.chunked = true
	case length >= 0:
		f.length = length
	default:
		f.close = true // the body goes on to the end of the connection
	}
	return f, nil
}

// closes reports whether the worker will close the connection.
func (h head) closes() bool {
	persistent := h.minor == 1
	for value := range h.header.Values("Connection") {
		for option := range strings.SplitSeq(value, ",") {
			switch option = strings.TrimSpace(option); {
			case strings.EqualFold(option, "close"):
				return true
			case strings.EqualFold(option, "keep-alive"):
				persistent = true
			}
		}
	}
	return !persistent
}

// contentLength returns the length that all of values agree on; -1 if there are
// none.
func contentLength(values iter.Seq[string]) (int64, error) {
	length := int64(-1)
	for value := range values {
		// The bit size leaves out the sign, and ParseUint takes none.
		n, err := strconv.ParseUint(strings.Trim(value, " \t"), 10, 63)
		if err != nil {
			return -1, fmt.Errorf("content-length %q", clip([]byte(value)))
		}
		if length >= 0 && length != int64(n) {
			return -1, fmt.Errorf("two lengths, %d and %d", length, n)
		}
		length = int64(n)
	}
	return length, nil
}

// cut makes of an early end what it is.
func cut(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull):
		return errors.New("line too long")
	}
	return err
}

// clip shortens what a worker said to what an error text can bear.
func clip(b []byte) []byte { return b[:min(len(b), 80)] }
