package exchange

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// large is more than any kernel here holds for one connection.
const large = 32 << 20

// pattern returns a body in which every place looks different. It is not to be
// changed.
func pattern(size int) []byte { return wholePattern()[:size] }

var wholePattern = sync.OnceValue(func() []byte {
	b := make([]byte, large)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return b
})

// fragmented cuts b into pieces of which the sizes go up and down, some empty.
func fragmented(b []byte, step int) [][]byte {
	var out [][]byte
	for n := 0; len(b) > 0; n++ {
		size := min(len(b), n%5*step)
		out = append(out, b[:size])
		b = b[size:]
	}
	return out
}

func TestBodyArrivesWhole(t *testing.T) {
	tests := []struct {
		name string
		body [][]byte
	}{
		{"small fragments", fragmented(pattern(1000), 3)},
		{"more fragments than one writev takes", fragmented(pattern(50_000), 11)},
		{"16 KiB and a head", fragmented(pattern(tlsAtOnce), 5000)},
		{"1 MiB", fragmented(pattern(1<<20), 100_000)},
		{"8 MiB in many fragments", fragmented(pattern(8<<20), 4097)},
		{"8 MiB in one", [][]byte{pattern(8 << 20)}},
	}
	for _, test := range tests {
		forEachSocket(t, test.name, func(t *testing.T, serve server) {
			p := serve(t, func(l *line) {
				for {
					r, body := l.request()
					if r == nil {
						return
					}
					sum := sha256.Sum256(body)
					l.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n%x", sum))
				}
			})
			sum := sha256.New()
			for _, b := range test.body {
				sum.Write(b)
			}
			want := fmt.Sprintf("%x", sum.Sum(nil))
			for range 2 {
				if got := exchanged(t, p, &Request{Path: "/", Body: test.body, FirstByte: patience}); got != want {
					t.Errorf("sum of the body = %s, want %s", got, want)
				}
			}
			wantStats(t, p, Stats{Open: 1, Idle: 1})
		})
	}
}

// TestEarlyAnswer has engines that answer when they have seen the head. The
// answer must come, though the request can never be written to its end.
func TestEarlyAnswer(t *testing.T) {
	const refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\n"
	then := map[string]func(l *line){
		"and never reads on": func(l *line) {
			l.say(refusal + "\r\ntoo large")
			<-l.t.Context().Done()
		},
		"and closes with our bytes unread": func(l *line) {
			l.say(refusal + "Connection: close\r\n\r\ntoo large")
		},
		"and closes unannounced": func(l *line) {
			l.say(refusal + "\r\ntoo large")
		},
	}
	for name, do := range then {
		forEachSocket(t, "an engine answers 413 "+name, func(t *testing.T, serve server) {
			p := serve(t, func(l *line) {
				if _, err := http.ReadRequest(l.r); err != nil {
					t.Error(err)
				}
				do(l)
			})
			begun := time.Now()
			a, err := p.Do(t.Context(), &Request{Path: "/", Body: [][]byte{pattern(large)}, FirstByte: patience})
			if err != nil {
				t.Fatalf("Do() = %v", err)
			}
			if took := time.Since(begun); took > patience/2 {
				t.Errorf("Do() took %v: it went on writing", took)
			}
			if body, err := readAll(a); a.Status != 413 || body != "too large" || err != nil {
				t.Errorf("answer = %d %q, %v", a.Status, body, err)
			}
			a.Close()
			wantStats(t, p, Stats{})
			wantHelperEnded(t, a)
		})
	}
}

// wantHelperEnded checks that the exchange has left no goroutine behind.
func wantHelperEnded(t *testing.T, a *Answer) {
	t.Helper()
	if a.conn.out.ended == nil {
		return // there was none: the socket was reset at once
	}
	select {
	case <-a.conn.out.ended:
	default:
		t.Error("the helper outlives Close")
	}
}

// TestAnswerWhileTheRequestIsRead has an engine that answers first and then
// reads all the same: the helper must go on writing.
func TestAnswerWhileTheRequestIsRead(t *testing.T) {
	forEachSocket(t, "an engine answers, then reads", func(t *testing.T, serve server) {
		p := serve(t, func(l *line) {
			r, err := http.ReadRequest(l.r)
			if err != nil {
				t.Error(err)
				return
			}
			l.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
			n, err := io.Copy(io.Discard, r.Body)
			body := fmt.Sprint(n, err)
			l.say(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body))
			saying(okAnswer)(l)
		})
		a, err := p.Do(t.Context(), &Request{Path: "/", Body: [][]byte{pattern(large)}, FirstByte: patience})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(a)
		if want := fmt.Sprintf("first%d <nil>", large); got != want || err != nil {
			t.Errorf("body = %q, %v, want %q", got, err, want)
		}
		a.Close()
		wantStats(t, p, Stats{Open: 1, Idle: 1})
		exchanged(t, p, post())
	})
}

func TestEngineThatClosesWhileWeWrite(t *testing.T) {
	forEachSocket(t, "an engine closes without an answer", func(t *testing.T, serve server) {
		p := serve(t, func(l *line) { _, _ = http.ReadRequest(l.r) })
		_, err := p.Do(t.Context(), &Request{Path: "/", Body: [][]byte{pattern(large)}, FirstByte: patience})
		if e := wantError(t, err); e.Phase != Write || e.Stale || e.Timeout {
			t.Errorf("Do() = %+v, want a failed write", e)
		}
		wantStats(t, p, Stats{})
	})
}

func TestFirstByteBoundsTheWrite(t *testing.T) {
	forEachSocket(t, "an engine does not read", func(t *testing.T, serve server) {
		p := serve(t, func(l *line) { <-l.t.Context().Done() })
		// The TLS handshake needs an engine that reads; then it stops.
		if p.manner.Load().tls != nil {
			p = serve(t, func(l *line) {
				_, _ = http.ReadRequest(l.r)
				<-l.t.Context().Done()
			})
		}
		_, err := p.Do(t.Context(), &Request{Path: "/", Body: [][]byte{pattern(large)}, FirstByte: 100 * time.Millisecond})
		if e := wantError(t, err); e.Phase != Write || !e.Timeout || e.Stale {
			t.Errorf("Do() = %+v, want a write that timed out", e)
		}
		wantStats(t, p, Stats{})
	})
}

// TestDirectWriteIntoAClosedConnection has a small request meet a reset: the
// answer that came before it is still delivered.
func TestDirectWriteIntoAClosedConnection(t *testing.T) {
	open, closed := make(chan struct{}), make(chan struct{})
	p := dialled(t, serve(t, func(l *line) {
		<-open
		l.say("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy")
		if c, ok := l.Conn.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
		l.reset()
		close(closed)
	}))
	c, err := p.connection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(open)
	<-closed
	a := &Answer{ctx: t.Context(), peer: p, conn: c, stop: func() bool { return true }}
	a.send(post())
	if err := a.Await(); err != nil {
		t.Fatalf("Await() = %v", err)
	}
	if c.out.sent() {
		t.Error("the write met no reset: the test shows nothing")
	}
	if body, err := readAll(a); a.Status != 503 || body != "busy" || err != nil {
		t.Errorf("answer = %d %q, %v", a.Status, body, err)
	}
	a.Close()
	wantStats(t, p, Stats{})
}

// TestStaleWhileWriting has a used connection that is reset between our look and
// our write.
func TestStaleWhileWriting(t *testing.T) {
	looked, closed := make(chan struct{}), make(chan struct{})
	p := dialled(t, serve(t, func(l *line) {
		l.request()
		l.say(okAnswer)
		<-looked
		l.reset()
		close(closed)
	}))
	exchanged(t, p, post())
	c, err := p.connection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(looked)
	<-closed
	a := &Answer{ctx: t.Context(), peer: p, conn: c, stop: func() bool { return true }}
	a.send(post())
	if e := wantError(t, a.Await()); e.Phase != Write || !e.Stale || e.Timeout {
		t.Errorf("Await() = %v (%+v), want a stale write", e, e)
	}
	wantStats(t, p, Stats{})
}

func TestSmallRequestStartsNoGoroutine(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)))
	for _, size := range []int{0, 1000, 16 << 10} {
		a, err := p.Do(t.Context(), &Request{Path: "/", Body: [][]byte{pattern(size)}, FirstByte: patience})
		if err != nil {
			t.Fatal(err)
		}
		if a.conn.out.ended != nil {
			t.Errorf("a body of %d bytes needed a helper", size)
		}
		if _, err := readAll(a); err != nil {
			t.Error(err)
		}
		a.Close()
	}
}
