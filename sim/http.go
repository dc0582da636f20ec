package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const eventStream = "text/event-stream; charset=utf-8"

// ServeHTTP implements http.Handler: the engine's API.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.open.enter() {
		panic(http.ErrAbortHandler)
	}
	defer e.open.leave()
	w.Header().Set("Server", "uvicorn")
	w.Header().Set("Vary", "Origin")
	path := r.URL.Path
	if e.cfg.Control && strings.HasPrefix(path, controlPrefix) {
		e.serveControl(w, r)
		return
	}
	f := e.faults.match(path, e.cfg.Role)
	if f != nil {
		if f.strike(w, r, e.cfg.Dialect) {
			return
		}
		w = &damaged{ResponseWriter: w, f: f}
	}
	if !e.allowed(r) {
		answerJSON(w, http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
		return
	}
	switch {
	case !generates(path) || e.cfg.Dialect == VLLMNixl && path == pathGenerate:
		e.serveInfo(w, r)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		answerJSON(w, http.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
	default:
		e.counts.serving.Add(1)
		defer e.counts.serving.Add(-1)
		e.serveGenerate(w, r, f) //nolint:contextcheck // the work outlives the client for a while, see leaving
	}
}

// allowed reports whether r has the key that it needs.
func (e *Engine) allowed(r *http.Request) bool {
	path := r.URL.Path
	free := e.cfg.APIKey == ""
	if e.cfg.Dialect == SGLang {
		free = free || strings.HasPrefix(path, "/health") || strings.HasPrefix(path, "/metrics")
	} else {
		free = free || !strings.HasPrefix(path, "/v1")
	}
	return free || r.Header.Get("Authorization") == "Bearer "+e.cfg.APIKey
}

// serveGenerate serves one request of either dialect.
func (e *Engine) serveGenerate(w http.ResponseWriter, hr *http.Request, f *Fault) {
	e.counts.requests.Add(1)
	body, err := readBody(hr)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r, err := parse(hr.URL.Path, body)
	if err == nil {
		err = r.check(e.cfg.ContextLength)
	}
	ctx, cancel := e.requestContext(hr)
	defer cancel(nil)
	c := &call{e: e, w: w, hr: hr, r: r, ctx: ctx, cancel: cancel, fault: f}
	if e.cfg.Dialect == SGLang {
		c.serveSGLang(err)
	} else {
		c.serveVLLM(err)
	}
}

// A call is one request being served.
type call struct {
	e      *Engine
	w      http.ResponseWriter
	hr     *http.Request
	r      *request
	ctx    *leaving
	cancel context.CancelCauseFunc
	fault  *Fault
	legs   []*leg
	id     string // vLLM: of the answer
}

// sums returns what usage counts, of all legs.
func (c *call) sums() (prompt, made, cached int) {
	for _, l := range c.legs {
		prompt += l.q.promptTokens
		made += l.count
		cached += l.cached
	}
	return prompt, made, cached
}

// readBody reads a whole body, in one piece if its length is known.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

// leaving is the context of a request. It ends some time after the client has
// left, as engines take a while to notice.
type leaving struct {
	context.Context
	cancel context.CancelCauseFunc
	delay  func(generating bool) time.Duration

	generating atomic.Bool

	mu    sync.Mutex
	timer *time.Timer
	done  bool
}

// requestContext returns the context in which r is worked on.
func (e *Engine) requestContext(r *http.Request) (*leaving, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(e.base)
	l := &leaving{Context: ctx, cancel: cancel, delay: e.disconnectDelay}
	stop := context.AfterFunc(r.Context(), l.left)
	return l, func(cause error) {
		if cause == nil {
			stop()
			l.stop()
		}
		cancel(cause)
	}
}

// left is called when the client has left.
func (l *leaving) left() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done && l.timer == nil {
		l.timer = time.AfterFunc(l.delay(l.generating.Load()), func() { l.cancel(errGone) })
	}
}

func (l *leaving) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// disconnectDelay returns how long it takes to notice that a client has left.
func (e *Engine) disconnectDelay(generating bool) time.Duration {
	switch {
	case e.cfg.DisconnectDelay > 0:
		return e.cfg.DisconnectDelay
	case e.cfg.Dialect == VLLMNixl:
		// It is told at once, and looks before it makes use of a step, so that a
		// prompt whose client left while it was computed is held for nobody.
		return 10 * time.Millisecond
	case generating:
		return time.Second
	}
	return 3 * time.Second
}

// answerJSON sends a whole answer.
func answerJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// events writes server-sent events.
type events struct {
	w     http.ResponseWriter
	buf   []byte
	begun bool
}

// begin sends the head.
func (s *events) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.w.Header().Set("Content-Type", eventStream)
	s.w.WriteHeader(http.StatusOK)
	if f, ok := s.w.(*damaged); ok && f.f.Kind == FaultComments {
		_, _ = s.w.Write([]byte(strings.Repeat(": keep-alive\n\n", f.f.Comments)))
		f.Flush()
	}
}

// flush sends what was written so far.
func (s *events) flush() {
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

// frame starts an event; its data is to be appended.
func (s *events) frame() []byte { return append(s.buf[:0], "data: "...) }

// send sends the event b, which frame had started. A client that has left is
// noticed elsewhere.
func (s *events) send(b []byte) {
	s.begin()
	b = append(b, "\n\n"...)
	s.buf = b
	_, _ = s.w.Write(b)
	s.flush()
}

// errorEvent sends an error as an event, with the spaces of Python's json.
func (s *events) errorEvent(dialect, message string, code int) {
	b := append(s.frame(), `{"error": {`...)
	kind := "InternalServerError"
	if dialect == SGLang {
		b = append(b, `"object": "error", `...)
		kind = "INTERNAL_SERVER_ERROR"
	}
	b = appendJSON(append(b, `"message": `...), message)
	b = append(b, `, "type": "`+kind+`", "param": null, "code": `...)
	s.send(append(strconv.AppendInt(b, int64(code), 10), "}}"...))
}

// done sends the end of a stream.
func (s *events) done() { s.send(append(s.frame(), "[DONE]"...)) }

// hostPort splits an address.
func hostPort(a net.Addr) (string, int) {
	t := a.(*net.TCPAddr)
	return t.IP.String(), t.Port
}

func (e *Engine) apiHostPort() (string, int) { return hostPort(e.api.Addr()) }

// stopped deals with a leg that ended without an answer that can be given: the
// client has left, the engine stops, or a fault struck.
func (c *call) stopped(err error) bool {
	var struck *faulted
	switch {
	case errors.As(err, &struck):
		struck.f.end(c.w, c.hr)
		return true
	case errors.Is(err, errGone):
		c.e.counts.aborted.Add(1)
		panic(http.ErrAbortHandler)
	case errors.Is(err, errClosing), errors.Is(err, ErrKilled):
		panic(http.ErrAbortHandler)
	}
	return false
}
