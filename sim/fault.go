package sim

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The ways in which an engine can be told to fail. Those up to FaultComments
// act on a whole request or answer, those after it while the answer is made.
const (
	FaultStatus        = "status"          // answer Status with Header and Body
	FaultReset         = "reset"           // reset the connection instead of a head
	FaultClose         = "close"           // close it in order instead of a head
	FaultHang          = "hang"            // send no head until the client leaves
	FaultHangAfterHead = "hang-after-head" // send a head of 200 and nothing more
	FaultGarbage       = "garbage"         // send bytes that are not HTTP
	FaultNotJSON       = "not-json"        // 200 with a body that is not JSON
	FaultCutJSON       = "cut-json"        // half of the JSON, with the length of that half
	FaultShortJSON     = "short-json"      // half of the JSON, with the length of the whole, then close
	FaultErrorFrame    = "error-frame"     // a stream of 200 whose first event is an error with Status and Body
	FaultSplit         = "split"           // the answer's body comes one byte per write
	FaultComments      = "comments"        // a stream begins with Comments keep-alive comments
	FaultSlow          = "slow"            // Delay before each token, or before what is no answer
	FaultDie           = "die"             // reset after Tokens tokens
	FaultCloseMid      = "close-mid"       // close the connection after Tokens tokens, amid the chunks
	FaultEndEarly      = "end-early"       // end the body in order after Tokens tokens, without [DONE]
	FaultStall         = "stall"           // say nothing more after Tokens tokens
	FaultWedge         = "wedge"           // make no token after Tokens until ClearFaults: the request keeps its place and its blocks
)

// FaultCutOff is no fault of a request but of a way: a decode engine cannot reach
// the prefill engine whose BootstrapAddr is Peer. Both serve all others.
const FaultCutOff = "cut-off"

// A Fault is told to an engine by Fail.
type Fault struct {
	Kind  string // one of the above
	Path  string // of the requests that fail; "" is every path that generates
	Leg   string // Prefill or Decode: only requests of that leg; "" both
	Nth   int    // the first request that fails, counted from 1 since Fail; 0 is 1
	Count int    // how many fail; 0 is all from there

	Status   int // default 500
	Header   http.Header
	Body     string
	Delay    time.Duration // FaultSlow; FaultStatus: before the head
	Tokens   int
	Comments int
	Peer     string // FaultCutOff: host:port; "" is every prefill engine

	over chan struct{} // closed by ClearFaults
}

// faults are an engine's script.
type faults struct {
	mu   sync.Mutex
	list []*scripted
}

// A scripted fault counts the requests that it might fail.
type scripted struct {
	Fault
	seen int
}

// Fail makes the engine fail as f says, beside what it was told before.
func (e *Engine) Fail(f Fault) {
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	f.over = make(chan struct{})
	e.faults.list = append(e.faults.list, &scripted{Fault: f})
}

// ClearFaults makes the engine work again.
func (e *Engine) ClearFaults() {
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	for _, s := range e.faults.list {
		close(s.over)
	}
	e.faults.list = nil
}

// match returns the fault that the next request on path has, if any.
func (f *faults) match(path, role string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hit *Fault
	for _, s := range f.list {
		if s.Kind == FaultCutOff || s.Path != path && (s.Path != "" || !generates(path)) || s.Leg != "" && s.Leg != role {
			continue
		}
		if s.isTurn() && hit == nil {
			hit = &s.Fault
		}
	}
	return hit
}

// cutOff reports whether this time the prefill engine at addr cannot be reached.
func (f *faults) cutOff(addr string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.list {
		if s.Kind == FaultCutOff && (s.Peer == "" || s.Peer == addr) && s.isTurn() {
			return true
		}
	}
	return false
}

// isTurn counts one more occasion, and reports whether the fault strikes at it.
func (s *scripted) isTurn() bool {
	s.seen++
	first := max(s.Nth, 1)
	return s.seen >= first && (s.Count == 0 || s.seen < first+s.Count)
}

// generates reports whether path is an endpoint that generates.
func generates(path string) bool {
	return path == pathChat || path == pathCompletions || path == pathGenerate
}

// midway returns f if it acts while the answer is made, else nil.
func (f *Fault) midway() *Fault {
	if f == nil {
		return nil
	}
	switch f.Kind {
	case FaultSlow, FaultDie, FaultCloseMid, FaultEndEarly, FaultStall, FaultWedge:
		return f
	}
	return nil
}

// slowness returns how much longer each token takes.
func (f *Fault) slowness() time.Duration {
	if f == nil || f.Kind != FaultSlow {
		return 0
	}
	return f.Delay
}

// after reports whether the fault strikes when done tokens are made.
func (f *Fault) after(done int) bool {
	switch f.Kind {
	case FaultDie, FaultCloseMid, FaultEndEarly, FaultStall:
		return done >= f.Tokens
	}
	return false
}

// faulted is the error of a leg that a fault has struck amid its answer.
type faulted struct{ f *Fault }

func (f *faulted) Error() string { return "fault struck" }

// strike does what the fault says instead of an answer. It reports false if
// the request is to be served nevertheless.
func (f *Fault) strike(w http.ResponseWriter, r *http.Request, dialect string) bool {
	switch f.Kind {
	case FaultSlow:
		if !generates(r.URL.Path) {
			_ = sleep(r.Context(), f.Delay)
		}
		return false
	case FaultStatus:
		_ = sleep(r.Context(), f.Delay)
		for key, values := range f.Header {
			w.Header()[http.CanonicalHeaderKey(key)] = values
		}
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(f.status())
		_, _ = w.Write([]byte(f.Body))
	case FaultReset:
		hijack(w, true, "")
	case FaultClose:
		hijack(w, false, "")
	case FaultHang:
		hang(w, r, false)
	case FaultHangAfterHead:
		hang(w, r, true)
	case FaultGarbage:
		hijack(w, false, "\x16\x03\x01 this is not HTTP\r\n\r\n")
	case FaultNotJSON:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("<html>Bad Gateway</html>"))
	case FaultErrorFrame:
		f.errorFrame(w, dialect)
	default:
		return false
	}
	return true
}

func (f *Fault) status() int {
	if f.Status == 0 {
		return http.StatusInternalServerError
	}
	return f.Status
}

// errorFrame answers 200, an error event and [DONE].
func (f *Fault) errorFrame(w http.ResponseWriter, dialect string) {
	s := &events{w: w}
	s.begin()
	_, _ = w.Write([]byte(strings.Repeat(": keep-alive\n\n", f.Comments)))
	message := f.Body
	if message == "" {
		message = "Internal server error"
	}
	s.errorEvent(dialect, message, f.status())
	s.done()
}

// end ends an answer amid its body.
func (f *Fault) end(w http.ResponseWriter, r *http.Request) {
	switch f.Kind {
	case FaultDie:
		hijack(w, true, "")
	case FaultCloseMid:
		hijack(w, false, "")
	case FaultStall:
		hang(w, r, true)
	case FaultEndEarly:
	}
}

// hang says nothing until the client leaves, which net/http notices only once
// the body has been read.
func hang(w http.ResponseWriter, r *http.Request, head bool) {
	_, _ = io.Copy(io.Discard, r.Body)
	if head {
		_ = http.NewResponseController(w).Flush()
	}
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// hijack ends the connection, after sending raw, with a reset or in order.
func hijack(w http.ResponseWriter, reset bool, raw string) {
	rc := http.NewResponseController(w)
	c, _, err := rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer c.Close()
	_, _ = c.Write([]byte(raw))
	if t, ok := c.(*conn); ok && reset {
		_ = t.SetLinger(0)
	}
}

// A damaged writer sends a whole answer wrongly.
type damaged struct {
	http.ResponseWriter
	f      *Fault
	status int  // FaultCutJSON: of the head, which is sent with the body
	gone   bool // FaultShortJSON: the connection is; net/http panics if it is flushed
}

// WriteHeader implements http.ResponseWriter.
func (d *damaged) WriteHeader(status int) {
	if d.f.Kind == FaultCutJSON {
		d.status = status
		return
	}
	d.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (d *damaged) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// Flush implements http.Flusher.
func (d *damaged) Flush() {
	if !d.gone {
		_ = http.NewResponseController(d.ResponseWriter).Flush()
	}
}

// Hijack implements http.Hijacker.
func (d *damaged) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(d.ResponseWriter).Hijack()
}

// Write implements io.Writer.
func (d *damaged) Write(b []byte) (int, error) {
	if d.gone {
		return 0, http.ErrHijacked
	}
	half := b[:len(b)/2]
	switch d.f.Kind {
	case FaultSplit:
		for i := range b {
			if _, err := d.ResponseWriter.Write(b[i : i+1]); err != nil {
				return i, err
			}
			d.Flush()
		}
	case FaultCutJSON:
		d.Header().Set("Content-Length", strconv.Itoa(len(half)))
		d.ResponseWriter.WriteHeader(d.status)
		_, err := d.ResponseWriter.Write(half)
		return len(b), err
	case FaultShortJSON:
		if _, err := d.ResponseWriter.Write(half); err != nil {
			return 0, err
		}
		d.Flush()
		d.gone = true
		hijack(d.ResponseWriter, false, "")
	default:
		return d.ResponseWriter.Write(b)
	}
	return len(b), nil
}
