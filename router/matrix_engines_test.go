package router

import (
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pdrouter/workers"
)

// A world is what the engines and the registry of one cell see. It is the
// registry's Judge, which lets everything pass.
type world struct {
	meets bool          // legs of an attempt run at the same time, and wait for one another
	read  chan struct{} // closed when the client has read of its answer
	over  chan struct{} // closed when the test is

	mu       sync.Mutex
	attempts []*tried
	sights   []*sight
	meetings map[meeting]chan struct{}
	running  int // scripts that have not ended
}

// A tried is an attempt as the registry saw it.
type tried struct {
	workers [2]*workers.Worker // by role
	outcome [2]string          // likewise
	ended   [2]chan struct{}
}

// A sight is a leg as an engine saw it.
type sight struct {
	role    workers.Role
	index   int    // of the engine
	attempt int    // its number, from 0
	id      string // of the attempt, as engines know it
	body    string
	release bool
	acted   time.Time // when the engine had done what it did, or the leg had come
	cutOff  time.Time // when the router closed the connection; zero: it did not
}

// A meeting is a point to which a leg of an attempt has come.
type meeting struct {
	id     string
	role   workers.Role
	joined bool // it takes part in the hand-off; else: it has reached its engine
}

func newWorld(t *testing.T, concurrent bool) *world {
	w := &world{meets: concurrent, read: make(chan struct{}), over: make(chan struct{}), meetings: map[meeting]chan struct{}{}}
	t.Cleanup(func() { close(w.over) })
	return w
}

// Permit implements workers.Judge.
func (w *world) Permit(_ *workers.Permit, prefill, decode *workers.Worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts = append(w.attempts, &tried{
		workers: [2]*workers.Worker{prefill, decode},
		ended:   [2]chan struct{}{make(chan struct{}), make(chan struct{})},
	})
	return true
}

// Ended implements workers.Judge.
func (w *world) Ended(_ *workers.Permit, role workers.Role, outcome error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.attempts[len(w.attempts)-1]
	last.outcome[role] = word(outcome)
	close(last.ended[role])
}

// Began implements workers.Judge.
func (w *world) Began(*workers.Permit) {}

// Reported implements workers.Judge.
func (w *world) Reported(*workers.Worker, workers.Report, workers.Report, error) {}

// point returns a channel that is closed when the leg has come to m.
func (w *world) point(m meeting) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.meetings[m] == nil {
		w.meetings[m] = make(chan struct{})
	}
	return w.meetings[m]
}

// prefillEnded returns a channel that is closed when the lease of the last
// attempt's prefill leg has ended.
func (w *world) prefillEnded() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attempts[len(w.attempts)-1].ended[workers.Prefill]
}

// idle reports whether every engine is done with what it was sent.
func (w *world) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running == 0
}

// seen returns the legs that have come. One that was cancelled may come later.
func (w *world) seen() []sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	var legs []sight
	for _, s := range w.sights {
		legs = append(legs, *s)
	}
	return legs
}

// engine returns the script of an engine. It does what do says, if it is sick.
func (w *world) engine(role workers.Role, index int, do func(askedFor) deed) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" { // a stranger's, who knew the port's last owner
			http.NotFound(rw, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		s := &sight{role: role, index: index, id: r.Header.Get("X-Request-Id"), body: string(body), acted: time.Now()}
		s.release = role == workers.Decode && strings.Contains(s.body, `"max_tokens":1`)
		w.mu.Lock()
		s.attempt = len(w.attempts) - 1
		w.sights = append(w.sights, s)
		w.running++
		w.mu.Unlock()
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		p := &play{world: w, sight: s, conn: conn, gone: make(chan struct{})}
		go p.listen()
		p.perform(do)
		conn.Close()
		<-p.gone
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
	}
}

// A play is a leg that an engine is at work on.
type play struct {
	*world
	sight *sight
	conn  net.Conn
	gone  chan struct{} // closed when the connection is
}

// listen waits for the router to close the connection.
func (p *play) listen() {
	defer close(p.gone)
	_, _ = io.Copy(io.Discard, p.conn)
}

// await waits for c. If the router closes the connection before, it notes when,
// and reports false.
func (p *play) await(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-p.over:
	case <-p.gone:
		p.mu.Lock()
		p.sight.cutOff = time.Now()
		p.mu.Unlock()
	}
	return false
}

// comes says that the leg has come so far, and waits until its partner has.
func (p *play) comes(joined bool) bool {
	if !p.meets || p.sight.release {
		return true
	}
	m := meeting{p.sight.id, p.sight.role, joined}
	close(p.point(m))
	m.role = 1 - m.role
	return p.await(p.point(m))
}

func (p *play) perform(do func(askedFor) deed) {
	a := p.askedFor()
	d := deed{writes: a.sound(), met: true}
	if do != nil {
		d = do(a)
	}
	if !p.comes(false) || d.met && !p.comes(true) {
		return
	}
	if d.met && p.sight.role == workers.Decode && !p.sight.release && !p.await(p.prefillEnded()) {
		return
	}
	p.write(d.writes, d.slowly)
	p.mu.Lock()
	p.sight.acted = time.Now()
	p.mu.Unlock()
	if d.read && !p.await(p.read) {
		return
	}
	p.write(d.last, false)
	switch d.ends {
	case closes:
	case resets:
		p.conn.(*net.TCPConn).SetLinger(0)
	case silent:
		p.await(nil)
	case dribble:
		p.dribble()
	}
}

// write writes to the connection, the first bytes one by one if so asked.
func (p *play) write(bytes string, slowly bool) {
	if slowly {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range 50 {
			io.WriteString(p.conn, bytes[:1])
			bytes = bytes[1:]
			<-tick.C
		}
	}
	io.WriteString(p.conn, bytes)
}

// dribble goes on with a header, byte by byte, as long as anybody listens.
func (p *play) dribble() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	more := make(chan struct{})
	go func() {
		defer close(more)
		for range 1000 {
			if _, err := io.WriteString(p.conn, "x"); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-p.gone:
				return
			}
		}
	}()
	p.await(nil)
	<-more
}

// askedFor returns what an engine that is well would answer.
func (p *play) askedFor() askedFor {
	a := askedFor{role: p.sight.role, body: chatAnswer}
	switch {
	case a.role == workers.Prefill: // whose answer says where the KV is, in one of the dialects
		a.body = `{"choices":[],` + strings.Replace(handOff, `"remote_request_id":"r"`, `"remote_request_id":"`+p.sight.id+`"`, 1) + `}`
	case strings.Contains(p.sight.body, `"stream":true`):
		a.stream, a.frames = true, soundFrames()
	}
	return a
}

// soundFrames are the answer to a stream.
func soundFrames() []string {
	return []string{roleEvent, tokenEvent(0), tokenEvent(1), finishEvent, doneEvent}
}

// keyOf returns the hand-off key in a leg: a room, or the name of blocks.
func (s sight) keyOf(name string) string {
	m := regexp.MustCompile(`"` + name + `":"?([^",}]+)`).FindStringSubmatch(s.body)
	if m == nil {
		return ""
	}
	return m[1]
}

// refuse makes e's port one that refuses connections, and that nobody else gets.
func (e *engine) refuse(t *testing.T) {
	t.Helper()
	addr, _ := e.Listener.Addr().(*net.TCPAddr)
	e.Close()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), // others' connections to it linger
		syscall.Bind(fd, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// word returns an outcome in one word.
func word(outcome error) string {
	fault, isFault := errors.AsType[*workers.Fault](outcome)
	switch {
	case outcome == nil:
		return "ok"
	case isFault:
		return fault.Kind.String()
	default:
		return "canceled"
	}
}
