package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
)

// A lookout stands before the engines and notes when they see what of whose
// requests.
type lookout struct {
	mu     sync.Mutex
	visits map[string]*visit // by the client's name, which is in its prompt
	byRID  map[string]*visit
}

// A visit is what engines see of one client's request.
type visit struct {
	legs   []*sighting
	aborts map[string]time.Time // by role: when /abort_request came

	// By role: closed when the first leg has arrived, and when it has ended
	// other than by the client's leaving.
	arrived, answered map[string]chan struct{}
}

// A sighting is one leg as its engine sees it.
type sighting struct {
	role                  string
	began, left, answered time.Time // left: its connection was closed; answered: it ended by itself
}

func newLookout() *lookout {
	return &lookout{visits: map[string]*visit{}, byRID: map[string]*visit{}}
}

// post stands before e until the test ends, and returns where.
func (l *lookout) post(t testing.TB, e *sim.Engine, role string) (url string) {
	t.Helper()
	if conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL(), "http://")); err != nil {
		t.Fatal(err)
	} else { // so that it surely runs
		io.WriteString(conn, "GET /health HTTP/1.0\r\n\r\n")
		io.Copy(io.Discard, conn)
		conn.Close()
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/completions":
			l.watch(w, r, e, role)
		case "/abort_request":
			l.abort(r, role)
			e.ServeHTTP(w, r)
		default:
			e.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// watch lets e serve a leg. net/http notices that a client leaves once the body
// has been read.
func (l *lookout) watch(w http.ResponseWriter, r *http.Request, e *sim.Engine, role string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s, v := l.arrive(body, role)
	stop := context.AfterFunc(r.Context(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.left = time.Now()
	})
	defer func() {
		if !stop() {
			return // it has seen it, or is about to note that it did
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		s.answered = time.Now()
		closeOnce(v.answered[role])
	}()
	e.ServeHTTP(w, r)
}

// arrive notes a leg.
func (l *lookout) arrive(body []byte, role string) (*sighting, *visit) {
	var leg struct{ RID string }
	_ = json.Unmarshal(body, &leg) // of a dialect without rid it is empty
	s := &sighting{role: role, began: time.Now()}
	name := string(regexp.MustCompile(`client-[0-9a-z-]+`).Find(body))
	v := l.of(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	v.legs = append(v.legs, s)
	if leg.RID != "" {
		l.byRID[leg.RID] = v
	}
	closeOnce(v.arrived[role])
	return s, v
}

func (l *lookout) abort(r *http.Request, role string) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var order struct{ RID string }
	_ = json.Unmarshal(body, &order)
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.byRID[order.RID]; v != nil && v.aborts[role].IsZero() {
		v.aborts[role] = time.Now()
	}
}

// of returns what is seen of the client of that name.
func (l *lookout) of(name string) *visit {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.visits[name]
	if v == nil {
		v = &visit{aborts: map[string]time.Time{}, arrived: map[string]chan struct{}{}, answered: map[string]chan struct{}{}}
		for _, role := range []string{sim.Prefill, sim.Decode} {
			v.arrived[role], v.answered[role] = make(chan struct{}), make(chan struct{})
		}
		l.visits[name] = v
	}
	return v
}

// closeOnce closes c if it is open; its user has a lock.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// A parting is what became of the legs of a client that left.
type parting struct {
	open  int             // legs that have neither seen it nor ended
	seen  []time.Duration // from its leaving until the legs' connections were closed
	told  []time.Duration // likewise until the engines were told to abort them
	quiet []string        // roles of legs that saw it and were not told to abort
}

// parting returns what became of the legs of a client that left at that time.
func (l *lookout) parting(name string, at time.Time) (p parting) {
	v := l.of(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range v.legs {
		switch {
		case !s.left.IsZero():
			p.seen = append(p.seen, s.left.Sub(at))
			if told := v.aborts[s.role]; told.IsZero() {
				p.quiet = append(p.quiet, s.role)
			} else {
				p.told = append(p.told, told.Sub(at))
			}
		case s.answered.IsZero():
			p.open++
		}
	}
	return p
}

// leaverPrompt returns a prompt of that many tokens that names its client.
func leaverPrompt(name string, tokens int) string {
	return "client-" + name + " " + strings.Repeat("word", tokens-4)
}
