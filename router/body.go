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

	"pdrouter/transfer"
)

// readRequest reads the body of c whole, and looks at it as it comes. Memory and
// what it takes of Config.MaxBufferedBytes are given back by freeBody.
func (h *Handler) readRequest(c *call, endpoint transfer.Endpoint) (*transfer.Request, error) {
	in, err := h.openBody(c)
	if err != nil {
		return nil, err
	}
	req, bad := transfer.Read(endpoint, in)
	if err := h.closeBody(c, in); err != nil {
		return nil, err
	}
	return req, bad
}

// readBody reads the body of c whole, for who does not look into it.
func (h *Handler) readBody(c *call) error {
	in, err := h.openBody(c)
	if err != nil {
		return err
	}
	return h.closeBody(c, in)
}

// openBody makes the body of c ready to be read.
func (h *Handler) openBody(c *call) (*intake, error) {
	w, r := c.w, c.r
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	if r.ContentLength > c.cfg.MaxBodyBytes {
		return nil, tooLarge(c.cfg.MaxBodyBytes)
	}
	src := &patient{r: r.Body, control: &w.control, stall: c.cfg.BodyStall, left: c.cfg.MaxBodyBytes}
	encoding, length := strings.Join(r.Header.Values("Content-Encoding"), ", "), r.ContentLength
	if encoding != "" {
		length = -1
	}
	in := &intake{h: h, most: c.cfg.MaxBodyBytes, length: length, held: holding{h: h}}
	if in.src, in.err = decoder(encoding, src); errors.Is(in.err, io.EOF) {
		in.err = io.ErrUnexpectedEOF // an encoding has a head
	}
	return in, nil
}

// closeBody reads what is left of the body of c, and says what was wrong with it
// before anybody judges what it says.
func (h *Handler) closeBody(c *call, in *intake) error {
	for in.err == nil {
		in.More()
	}
	_ = c.w.control.SetReadDeadline(time.Time{}) // else it would end the request later on
	h.met.LetIn(!errors.Is(in.err, errMemory))
	if !errors.Is(in.err, io.EOF) {
		in.held.release()
		return c.cfg.bodyError(in.err)
	}
	c.body, c.held = in.buf, &in.held
	c.w.unread = false
	_ = c.r.Body.Close() // so that net/http looks for no rest of it, which takes a deeper stack than all else
	return nil
}

// freeBody gives back what the body of c takes, if it was read.
func (h *Handler) freeBody(c *call) {
	if c.held == nil {
		return
	}
	c.held.release()
	if !c.keepsBody {
		h.memory.put(c.body)
	}
	c.held, c.body = nil, nil
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
	if b.h.buffered.Add(n) > b.h.standing.Load().MaxBufferedBytes {
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
	if value == "" || value == "application/json" { // nearly always
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

func tooLarge(most int64) *Error {
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
		Message: fmt.Sprintf("The body is larger than the limit of %d bytes (--max-payload-size).", most),
	}
}

// bodyError returns the error for a body that could not be read.
func (c *Config) bodyError(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	e := &Error{Status: http.StatusBadRequest, Code: "body_unreadable", Err: err}
	switch {
	case errors.Is(err, errEndless):
		return tooLarge(c.MaxBodyBytes)
	case errors.Is(err, syscall.ECONNRESET):
		return errClientGone
	case errors.Is(err, errMemory):
		e.Status, e.Code, e.RetryAfter = http.StatusServiceUnavailable, "overloaded", "1"
		e.Message = "Too many request bodies are held at this moment. Try again shortly."
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.Status, e.Code = http.StatusRequestTimeout, "request_body_stalled"
		e.Message = fmt.Sprintf("The body made no progress for %v.", c.BodyStall)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Message = "The body ended before its end: it is shorter than its Content-Length, or its encoding is cut."
	case isMisencoded(err):
		e.Message = "The body is not what its Content-Encoding says."
	default:
		e.Message = "The body could not be read."
	}
	return e
}
