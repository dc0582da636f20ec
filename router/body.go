package router

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// firstRead is how much is made ready for a body whose length is known,
	// at first: a client that promises 200 MB and sends nothing costs no more.
	firstRead = 64 << 10

	// trusted is how long a body may be for its length to be believed once
	// firstRead of it has come. A longer one has to come in order to cost.
	trusted = 4 << 20
)

// readBody reads the body of c whole. Memory and what it takes of
// Config.MaxBufferedBytes are given back by freeBody.
func (h *Handler) readBody(c *call) error {
	w, r := c.w, c.r
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	if r.ContentLength > h.cfg.MaxBodyBytes {
		return h.tooLarge()
	}
	held := &holding{h: h}
	src := &patient{r: r.Body, control: w.control, stall: h.cfg.BodyStall, left: h.cfg.MaxBodyBytes}
	encoding, length := strings.Join(r.Header.Values("Content-Encoding"), ", "), r.ContentLength
	if encoding != "" {
		length = -1
	}
	decoded, err := decoder(encoding, src)
	if err == nil {
		c.body, err = h.readAll(decoded, length, held)
	}
	_ = w.control.SetReadDeadline(time.Time{}) // else it would end the request later on
	h.met.LetIn(!errors.Is(err, errMemory))
	if err != nil {
		held.release()
		return h.bodyError(err)
	}
	c.held = held
	w.unread = false
	_ = r.Body.Close() // so that net/http looks for no rest of it, which takes a deeper stack than all else
	return nil
}

// freeBody gives back what the body of c takes, if it was read.
func (h *Handler) freeBody(c *call) {
	if c.held == nil {
		return
	}
	c.held.release()
	if !c.keepsBody {
		h.bodies.put(c.body)
	}
	c.held, c.body = nil, nil
}

// readAll reads src, whose length is -1 if it is not known, to its end.
func (h *Handler) readAll(src io.Reader, length int64, held *holding) ([]byte, error) {
	size := int64(4 << 10)
	if length >= 0 {
		size = min(length+1, firstRead) // one more byte of room, to see the end
	}
	if !held.add(size) {
		return nil, errMemory
	}
	buf := make([]byte, 0, size)
	for {
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > h.cfg.MaxBodyBytes:
			return nil, h.tooLarge()
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) == cap(buf):
			bigger := grown(int64(cap(buf)), length)
			if bigger >= h.cfg.MaxBodyBytes {
				bigger = h.cfg.MaxBodyBytes + 1
			}
			if !held.add(bigger - int64(cap(buf))) {
				return nil, errMemory
			}
			whole := h.bodies.take(bigger)
			held.adjust(int64(cap(whole)) - bigger)
			buf = append(whole, buf...)
		}
	}
}

// grown returns the size of the buffer that comes after a full one of size, for
// a body that is said to have that length.
func grown(size, length int64) int64 {
	switch {
	case length < size:
		return 2 * size
	case length < trusted:
		return length + 1
	default:
		return min(2*size, length+1)
	}
}

// errMemory reports that Config.MaxBufferedBytes is used up.
var errMemory = errors.New("too many request bodies are held")

// A holding is one request's share of Config.MaxBufferedBytes.
type holding struct {
	h *Handler
	n int64
}

// add takes n bytes more, if they are free.
func (b *holding) add(n int64) bool {
	if b.h.buffered.Add(n) > b.h.cfg.MaxBufferedBytes {
		b.h.buffered.Add(-n)
		return false
	}
	b.n += n
	return true
}

// adjust takes n bytes more, or gives them back, whether they are free or not.
func (b *holding) adjust(n int64) {
	b.h.buffered.Add(n)
	b.n += n
}

func (b *holding) release() {
	b.h.buffered.Add(-b.n)
	b.n = 0
}

// errEndless reports a body above Config.MaxBodyBytes before its
// content-encoding is undone: what comes of it may be nothing at all.
var errEndless = errors.New("the encoded body is too large")

// A patient reader gives each read its own deadline: a slow body is served, a
// body that stalls is not.
type patient struct {
	r       io.Reader
	control *http.ResponseController
	stall   time.Duration
	left    int64 // bytes that may still come
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(p.stall)) // a recorder in tests has none
	n, err := p.r.Read(b)
	if p.left -= int64(n); p.left < 0 {
		return n, errEndless
	}
	return n, err
}

// checkContentType refuses what is not JSON. A request that does not say what
// it is counts as JSON, as with curl -d and an empty header.
func checkContentType(value string) error {
	if value == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(value)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")) {
		return nil
	}
	return &Error{
		Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type",
		Message: "The Content-Type is not supported; send application/json.",
	}
}

func (h *Handler) tooLarge() *Error {
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
		Message: fmt.Sprintf("The body is larger than the limit of %d bytes (--max-payload-size).", h.cfg.MaxBodyBytes),
	}
}

// bodyError returns the error for a body that could not be read.
func (h *Handler) bodyError(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	e := &Error{Status: http.StatusBadRequest, Code: "body_unreadable", Err: err}
	switch {
	case errors.Is(err, errEndless):
		return h.tooLarge()
	case errors.Is(err, syscall.ECONNRESET):
		return errClientGone
	case errors.Is(err, errMemory):
		e.Status, e.Code, e.RetryAfter = http.StatusServiceUnavailable, "overloaded", "1"
		e.Message = "Too many request bodies are held at this moment. Try again shortly."
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.Status, e.Code = http.StatusRequestTimeout, "request_body_stalled"
		e.Message = fmt.Sprintf("The body made no progress for %v.", h.cfg.BodyStall)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Message = "The body ended before its end: it is shorter than its Content-Length, or its encoding is cut."
	case isMisencoded(err):
		e.Message = "The body is not what its Content-Encoding says."
	default:
		e.Message = "The body could not be read."
	}
	return e
}
