package exchange

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 10 * time.Second

// A line is the engine's end of one connection.
type line struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// request reads one whole request, and returns its body. It returns nil when
// the other side has closed.
func (l *line) request() (*http.Request, []byte) {
	r, err := http.ReadRequest(l.r)
	if err != nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil
	}
	return r, body
}

// say writes what the engine says.
func (l *line) say(s string) { _, _ = io.WriteString(l.Conn, s) }

// sayBytewise writes it in as many segments as it has bytes.
func (l *line) sayBytewise(s string) {
	for i := range len(s) {
		l.say(s[i : i+1])
	}
}

// untilClosed waits for the other side to close.
func (l *line) untilClosed() { _, _ = io.Copy(io.Discard, l.r) }

// reset closes so that the other side gets a reset.
func (l *line) reset() {
	raw := l.Conn
	if c, ok := raw.(*tls.Conn); ok {
		raw = c.NetConn()
	}
	if c, ok := raw.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	raw.Close()
}

// serve runs one script per connection, the last one for all that follow, and
// returns the URL.
func serve(t *testing.T, scripts ...func(l *line)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, scripts...)
	return "http://" + l.Addr().String()
}

// serveUnix is serve on a unix socket.
func serveUnix(t *testing.T, scripts ...func(l *line)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, scripts...)
	return "unix:" + path
}

// serveTLS is serve over TLS, with what a client must trust.
func serveTLS(t *testing.T, scripts ...func(l *line)) (string, *tls.Config) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, client := certificates(t)
	serveOn(t, tls.NewListener(l, server), scripts...)
	return "https://" + l.Addr().String(), client
}

func serveOn(t *testing.T, l net.Listener, scripts ...func(l *line)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		l.Close()
		running.Wait()
	})
	running.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			script := scripts[min(n, len(scripts)-1)]
			running.Go(func() {
				stop := context.AfterFunc(ctx, func() { c.Close() })
				defer stop()
				defer c.Close()
				script(&line{Conn: c, t: t, r: bufio.NewReader(c)})
			})
		}
	})
}

// saying is a script that gives every request the same answer.
func saying(answer string) func(l *line) {
	return func(l *line) {
		for {
			if r, _ := l.request(); r == nil {
				return
			}
			l.say(answer)
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// dialled returns a peer for url, closed when the test ends.
func dialled(t *testing.T, url string, change ...func(*Config)) *Peer {
	t.Helper()
	cfg := DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	p, err := NewPeer(url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// post returns a request with a small body.
func post() *Request {
	return &Request{Path: "/v1/completions", Body: [][]byte{[]byte(`{"prompt":"hi"}`)}, FirstByte: patience}
}

// exchanged runs one exchange to its end and returns the body.
func exchanged(t *testing.T, p *Peer, req *Request) string {
	t.Helper()
	a, err := p.Do(t.Context(), req)
	if err != nil {
		t.Fatalf("Do() = %v", err)
	}
	defer a.Close()
	a.SetIdle(patience)
	body, err := io.ReadAll(a)
	if err != nil {
		t.Fatalf("body = %q, %v", body, err)
	}
	return string(body)
}

// wantError returns err as an Error, or fails.
func wantError(t *testing.T, err error) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error = %v (%T), want an *Error", err, err)
	}
	return e
}

// wantStats checks that the peer has these connections, now: what Do and Close
// do to the pool, they have done when they return.
func wantStats(t *testing.T, p *Peer, want Stats) {
	t.Helper()
	if got := p.Stats(); got != want {
		t.Errorf("Stats() = %+v, want %+v", got, want)
	}
}

// eventually polls a condition that depends on the kernel or on another
// goroutine, and calls failed when it does not come true.
func eventually(t *testing.T, condition func() bool, failed func()) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if condition() {
			return
		}
	}
	failed()
}

// within waits for c, or fails.
func within(t *testing.T, d time.Duration, c <-chan struct{}, what string) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		t.Fatalf("not within %v: %s", d, what)
	}
}

// readAll reads a body to its end.
func readAll(a *Answer) (string, error) {
	a.SetIdle(patience)
	body, err := io.ReadAll(a)
	return string(body), err
}

// A server is one of serve, serveTLS, serveUnix, and a peer for it.
type server func(t *testing.T, scripts ...func(l *line)) *Peer

// forEachSocket runs a test over TCP, TLS and a unix socket.
func forEachSocket(t *testing.T, name string, run func(t *testing.T, serve server)) {
	t.Run(name+", over TCP", func(t *testing.T) {
		run(t, func(t *testing.T, scripts ...func(l *line)) *Peer { return dialled(t, serve(t, scripts...)) })
	})
	t.Run(name+", over TLS", func(t *testing.T) {
		run(t, func(t *testing.T, scripts ...func(l *line)) *Peer {
			url, trust := serveTLS(t, scripts...)
			return dialled(t, url, func(c *Config) { c.TLS = trust })
		})
	})
	t.Run(name+", over a unix socket", func(t *testing.T) {
		run(t, func(t *testing.T, scripts ...func(l *line)) *Peer { return dialled(t, serveUnix(t, scripts...)) })
	})
}
