package exchange

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A stuck is a place in which an exchange can wait.
type stuck struct {
	name  string
	phase Phase
	serve func(t *testing.T, reached chan<- struct{}) *Peer
	body  int
}

func stucks() []stuck {
	// script makes an engine that gets so far and then waits to be left.
	script := func(head bool, say string) func(*testing.T, chan<- struct{}) func(*line) {
		return func(_ *testing.T, reached chan<- struct{}) func(*line) {
			return func(l *line) {
				if head {
					_, _ = http.ReadRequest(l.r)
				} else {
					l.request()
				}
				l.say(say)
				if say == "" || strings.HasSuffix(say, "X") {
					close(reached)
				}
				if !head {
					l.untilClosed()
				}
				<-l.t.Context().Done()
			}
		}
	}
	tcp := func(s func(*testing.T, chan<- struct{}) func(*line)) func(*testing.T, chan<- struct{}) *Peer {
		return func(t *testing.T, reached chan<- struct{}) *Peer { return dialled(t, serve(t, s(t, reached))) }
	}
	secured := func(s func(*testing.T, chan<- struct{}) func(*line)) func(*testing.T, chan<- struct{}) *Peer {
		return func(t *testing.T, reached chan<- struct{}) *Peer {
			url, trust := serveTLS(t, s(t, reached))
			return dialled(t, url, func(c *Config) { c.TLS = trust })
		}
	}
	write, head := script(true, ""), script(false, "HTTP/1.1 200 OK\r\nX")
	length := script(false, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
	chunks := script(false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	toEnd := script(false, "HTTP/1.1 200 OK\r\n\r\nhello")
	return []stuck{
		{name: "while dialling", phase: Dial, serve: fullBacklog},
		{name: "in the TLS handshake", phase: Dial, serve: deafTLS},
		{name: "while writing", phase: Write, serve: tcp(write), body: large},
		{name: "while writing through TLS", phase: Write, serve: secured(write), body: large},
		{name: "before the head is whole", phase: Head, serve: tcp(head)},
		{name: "before the head is whole, through TLS", phase: Head, serve: secured(head)},
		{name: "in a body by length", phase: Body, serve: tcp(length)},
		{name: "in a chunked body", phase: Body, serve: tcp(chunks)},
		{name: "in a body to the end", phase: Body, serve: tcp(toEnd)},
		{name: "in a body to the end, through TLS", phase: Body, serve: secured(toEnd)},
	}
}

// fullBacklog is an engine whose kernel takes no more connections.
func fullBacklog(t *testing.T, reached chan<- struct{}) *Peer {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
	for range 10 {
		c, err := net.DialTimeout("tcp", address.String(), 50*time.Millisecond)
		if err != nil {
			close(reached)
			return dialled(t, "http://"+address.String(), func(c *Config) { c.ConnectTimeout = patience })
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Skip("this kernel takes connections beyond the backlog")
	return nil
}

// deafTLS is an engine that accepts connections and says nothing.
func deafTLS(t *testing.T, reached chan<- struct{}) *Peer {
	url := serve(t, func(l *line) {
		_, _ = l.r.ReadByte()
		close(reached)
		l.untilClosed()
	})
	return dialled(t, "https"+url[len("http"):], func(c *Config) { c.ConnectTimeout = patience })
}

// start begins the exchange; the channel gets the error it ends with.
func (s stuck) start(ctx context.Context, p *Peer, reached chan<- struct{}) <-chan error {
	ended := make(chan error, 1)
	go func() {
		a, err := p.Do(ctx, &Request{Path: "/", Body: [][]byte{pattern(s.body)}})
		if err != nil {
			ended <- err
			return
		}
		if s.phase == Body {
			close(reached)
		}
		_, err = io.Copy(io.Discard, a)
		a.Close()
		ended <- err
	}()
	return ended
}

func TestCancel(t *testing.T) {
	for _, s := range stucks() {
		t.Run(s.name, func(t *testing.T) {
			reached := make(chan struct{})
			p := s.serve(t, reached)
			// The cause is the sibling's error, as an errgroup gives it. It must
			// not be taken for this worker's.
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended := s.start(ctx, p, reached)
			<-reached
			cancel(errors.New("the sibling failed"))
			s.wantEnd(t, p, ended, context.Canceled)
		})
	}
}

func TestContextDeadline(t *testing.T) {
	for _, s := range stucks() {
		t.Run(s.name, func(t *testing.T) {
			reached := make(chan struct{})
			p := s.serve(t, reached)
			pattern(large) // made before the clock runs
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			ended := s.start(ctx, p, reached)
			s.wantEnd(t, p, ended, context.DeadlineExceeded)
		})
	}
}

// wantEnd checks how, and how soon, an exchange ends.
func (s stuck) wantEnd(t *testing.T, p *Peer, ended <-chan error, want error) {
	t.Helper()
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case err := <-ended:
		e := wantError(t, err)
		if !errors.Is(err, want) || e.Phase != s.phase || e.Stale || e.Timeout {
			t.Errorf("exchange = %v (%+v), want %v while it did: %v", err, e, want, s.phase)
		}
	case <-timer.C:
		t.Fatal("the exchange goes on")
	}
	wantStats(t, p, Stats{})
}

func TestCancelledBeforeItBegins(t *testing.T) {
	p := dialled(t, serve(t, func(*line) { t.Error("a connection was opened") }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Do(ctx, post()); !errors.Is(err, context.Canceled) {
		t.Errorf("Do() = %v, want context.Canceled", err)
	}
}

func TestCancelOnAUsedConnectionIsNotStale(t *testing.T) {
	reached := make(chan struct{})
	p := dialled(t, serve(t, func(l *line) {
		l.request()
		l.say(okAnswer)
		l.request()
		close(reached)
		l.untilClosed()
	}))
	exchanged(t, p, post())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := stuck{phase: Head}
	ended := s.start(ctx, p, nil)
	<-reached
	cancel()
	s.wantEnd(t, p, ended, context.Canceled)
}

// TestEndedContextClosesTheConnection has the context end when the answer is
// whole but not closed: the context has got hold of the connection by then.
func TestEndedContextClosesTheConnection(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, err := p.Do(ctx, post())
	if err != nil {
		t.Fatal(err)
	}
	if body, err := readAll(a); body != "ok" || err != nil {
		t.Errorf("body = %q, %v", body, err)
	}
	cancel()
	a.Close()
	wantStats(t, p, Stats{})
}

// TestOldContextLeavesTheConnectionAlone ends contexts at about the time that
// their exchanges end. The next exchange must not feel it: either the connection
// is closed or it is sound.
func TestOldContextLeavesTheConnectionAlone(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)))
	reused := 0
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		a, err := p.Do(ctx, post())
		if err != nil {
			t.Fatalf("exchange after another's context ended: %v", err)
		}
		if a.conn.used {
			reused++
		}
		if _, err := readAll(a); err != nil {
			t.Fatal(err)
		}
		cancelled := make(chan struct{})
		go func() {
			defer close(cancelled)
			cancel()
		}()
		a.Close()
		if body := exchanged(t, p, post()); body != "ok" {
			t.Fatalf("body = %q", body)
		}
		<-cancelled
	}
	if reused == 0 {
		t.Error("no connection was ever used again: the test shows nothing")
	}
}

func TestFirstByteBoundsTheHead(t *testing.T) {
	scripts := map[string]func(l *line){
		"silence": func(l *line) {
			l.request()
			l.untilClosed()
		},
		"a head that trickles": func(l *line) {
			l.request()
			trickle(l, "HTTP/1.1 200 OK\r\nX: "+string(make([]byte, 10000)))
		},
		"1xx heads that trickle": func(l *line) {
			l.request()
			trickle(l, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100))
		},
	}
	for name, script := range scripts {
		forEachSocket(t, name, func(t *testing.T, serve server) {
			p := serve(t, script)
			req := post()
			req.FirstByte = 100 * time.Millisecond
			begun := time.Now()
			_, err := p.Do(t.Context(), req)
			if e := wantError(t, err); e.Phase != Head || !e.Timeout || e.Stale {
				t.Errorf("Do() = %+v, want a head that timed out", e)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("Do() took %v", took)
			}
			wantStats(t, p, Stats{})
		})
	}
}

// trickle says s slowly, until nobody listens.
func trickle(l *line, s string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range len(s) {
		<-tick.C
		if _, err := io.WriteString(l.Conn, s[i:i+1]); err != nil {
			return
		}
	}
}

func TestIdleBoundsARead(t *testing.T) {
	for _, rest := range []string{"Content-Length: 9\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "\r\nhello"} {
		forEachSocket(t, rest, func(t *testing.T, serve server) {
			p := serve(t, func(l *line) {
				l.request()
				l.say("HTTP/1.1 200 OK\r\n" + rest)
				l.untilClosed()
			})
			a, err := p.Do(t.Context(), post())
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			a.SetIdle(50 * time.Millisecond)
			body, err := io.ReadAll(a)
			if e := wantError(t, err); string(body) != "hello" || e.Phase != Body || !e.Timeout || e.Stale {
				t.Errorf("body = %q, %v (%+v), want hello and a timeout", body, err, e)
			}
		})
	}
}

// TestIdleDoesNotRunBetweenReads has a client slower than the bound, and later
// exchanges on the same connection.
func TestIdleDoesNotRunBetweenReads(t *testing.T) {
	forEachSocket(t, "a slow client", func(t *testing.T, serve server) {
		next := make(chan struct{})
		more := sync.OnceFunc(func() { close(next) })
		p := serve(t, func(l *line) {
			l.request()
			l.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
			<-next
			l.say("hello")
			saying(okAnswer)(l)
		})
		a, err := p.Do(t.Context(), post())
		if err != nil {
			t.Fatal(err)
		}
		first := a.conn
		const idle = 50 * time.Millisecond
		a.SetIdle(idle)
		buf := make([]byte, 5)
		pause := time.NewTimer(0)
		for range 2 {
			<-pause.C
			if n, err := io.ReadFull(a, buf); n != 5 {
				t.Fatalf("Read() = %d, %v", n, err)
			}
			pause.Reset(3 * idle)
			more()
		}
		a.Close()
		<-pause.C
		exchanged(t, p, post())
		wantStats(t, p, Stats{Open: 1, Idle: 1})
		if p.pool.idle[0] != first {
			t.Error("the old bound made the connection unfit")
		}
	})
}

func TestFirstByteDoesNotBoundTheBody(t *testing.T) {
	forEachSocket(t, "a body that comes late", func(t *testing.T, serve server) {
		const bound = 150 * time.Millisecond
		next := make(chan struct{})
		p := serve(t, func(l *line) {
			l.request()
			l.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
			<-next
			l.say("hello")
			l.untilClosed()
		})
		req := post()
		req.FirstByte = bound
		a, err := p.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		late := time.AfterFunc(3*bound, func() { close(next) })
		defer late.Stop()
		if body, err := io.ReadAll(a); string(body) != "hello" || err != nil {
			t.Errorf("body = %q, %v", body, err)
		}
	})
}

func TestIdleCanBeLifted(t *testing.T) {
	next := make(chan struct{})
	p := dialled(t, serve(t, func(l *line) {
		l.request()
		l.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		<-next
		l.say("hello")
		l.untilClosed()
	}))
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.SetIdle(20 * time.Millisecond)
	if _, err := io.ReadFull(a, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	a.SetIdle(0)
	late := time.AfterFunc(60*time.Millisecond, func() { close(next) })
	defer late.Stop()
	if n, err := io.ReadFull(a, make([]byte, 5)); n != 5 {
		t.Errorf("Read() after SetIdle(0) = %d, %v", n, err)
	}
}
