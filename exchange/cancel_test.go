package exchange

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
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
