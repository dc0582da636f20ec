package router

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"pdrouter/metrics"
	"pdrouter/record"
	"pdrouter/tracing"
)

// A call is one request of a client, from its head to the end of its answer,
// and what the access log will say of it.
type call struct {
	cfg   *standing // as it was when the request came
	w     *client
	r     *http.Request
	id    string
	began time.Time
	fault *Error // why it failed; nil if it did not
	rec   *record.Request
	key   string // the name of the API key that was sent, if it has one
	keep  bool   // its record, when it has ended
	trace tracing.Trace

	model           string
	dialect         string        // the first of its model's; empty: nobody serves it
	prefill, decode string        // worker IDs of the last attempt
	room            uint64        // likewise
	attempts        int           // tries, on one pair each
	ttft            time.Duration // 0: no token was sent
	streaming       bool          // the client asked for a stream
	torn            bool          // the stream has been cut inside an event
	whole           bool          // its last event has been passed on
	aborted         bool          // the engine gave up on the request, and said so as if it were an end

	body      []byte       // of the request, whole
	held      *holding     // what it takes; nil if it was not read
	keepsBody bool         // it is still in use when the call has ended
	print     *fingerprint // of the prompt
}

// answering adapts a handler that returns an error. It is the one place that
// answers errors and the one place that logs a request.
func (h *Handler) answering(route *metrics.Route, serve func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := h.newCall(w, r)
		route.Arrived()
		defer h.closeRecord(c) // also after a panic that ends the connection
		defer h.freeBody(c)
		abort := h.conclude(r.Context(), c, c.run(serve))
		h.account(c, route)
		if abort {
			c.abort()
		}
	}
}

//go:noinline
func (h *Handler) newCall(w http.ResponseWriter, r *http.Request) *call {
	cfg := h.standing.Load()
	c := &call{cfg: cfg, w: newClient(w, r, cfg.ClientStall), r: r, began: time.Now()}
	c.id = cfg.requestID(r)
	c.rec = h.book.Begin(c.began, c.id)
	w.Header()["X-Request-Id"] = []string{c.id}
	return c
}

// run calls serve. A panic in it is an error like any other that nobody
// expected; its stack goes to the log.
func (c *call) run(serve func(*call) error) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err = serve(c); err == nil && !c.w.begun() {
		err = errors.New("the handler ended without an answer")
	}
	return err
}

// abort cuts the connection, because a cut answer must not look whole. To a
// client of HTTP/1.0 the end of a connection can be that of an answer, so it
// gets a reset.
func (c *call) abort() {
	if c.r.ProtoAtLeast(1, 1) {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := c.w.control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// conclude answers the error with which a request ended, if any. It reports
// whether the connection must be aborted: an answer was begun that cannot be
// ended, or the client seems to be gone, and net/http would tell one that only
// closed its half of the connection that all went well.
func (h *Handler) conclude(ctx context.Context, c *call, err error) (abort bool) {
	if err == nil {
		return false
	}
	c.fault = errorFor(err)
	// As long as the request is being read, ctx ends with any read that fails.
	if ctx.Err() != nil && !drained(ctx) && !c.w.unread {
		c.fault = errorFor(errClientGone) // whatever else went wrong, nobody waits for it
	}
	if drained(ctx) && c.fault.Status == statusClientGone {
		c.fault = shuttingDown()
	}
	switch {
	case c.fault.Status == statusClientGone:
		h.met.Departed(metrics.Phase(c.rec.Phase().String()))
		return true
	case c.w.begun():
		return !c.fault.told
	default:
		if c.fault.Body == nil && speaksAnthropic(c.r.URL.Path) {
			c.fault.Body = c.fault.anthropicEnvelope()
		}
		c.fault.write(c.w)
		return false
	}
}

// account counts the request and writes its line in the access log.
func (h *Handler) account(c *call, route *metrics.Route) {
	now := time.Now()
	status, code, head := c.status(), "", now.Sub(c.began)
	if c.fault != nil {
		code = c.fault.Code
	}
	if c.w.begun() {
		head = c.w.headAt.Sub(c.began)
	}
	route.Answered(status, code, head)
	h.access.write(c, now, status)
}

// status returns the status that the client got; 499 if it got none.
func (c *call) status() int {
	if c.w.begun() {
		return c.w.status
	}
	return statusClientGone
}

// requestID returns the name that the client gave its request, if it is sane,
// else a new one. It is for logs and for the client; engines get another.
func (c *Config) requestID(r *http.Request) string {
	for _, name := range c.RequestIDHeaders {
		if id := r.Header.Get(name); isSane(id) {
			return strings.Clone(id) // it outlives the other headers, which are in one string with it
		}
	}
	return "req-" + rand.Text()[:24]
}

// isSane reports whether id may stand in a log and in a header.
func isSane(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
