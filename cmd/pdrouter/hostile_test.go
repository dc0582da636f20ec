package main

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"pdrouter/keys"
	"pdrouter/sim"
)

// A guarded fleet has all its listeners, and little patience.
func guarded(t *testing.T, edit func(*Config)) *fleet {
	t.Helper()
	return newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) {
		c.HeaderRead, c.IdleConnection, c.Router.BodyStall = 300*time.Millisecond, time.Second, 300*time.Millisecond
		c.HealthCheckPort, c.AdminPort, c.AdminKeys = freePort(t), freePort(t), keys.Of(adminKey)
		if edit != nil {
			edit(c)
		}
	}})
}

// ports are the listeners of a guarded fleet, with something to ask of each.
func (f *fleet) ports() map[string]net.Listener {
	return map[string]net.Listener{"/readiness": f.data, "/metrics": f.scrape, "/health": f.probe, "/workers": f.adminPort}
}

func dial(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// untilClosed returns what comes until the other side closes.
func untilClosed(t *testing.T, conn net.Conn) string {
	t.Helper()
	text, err := io.ReadAll(conn)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		t.Errorf("the connection stays open; so far came %q", text)
	}
	return string(text)
}

// TestSlowClients: nobody holds a connection of any listener who does not get to
// the end of a request's head, and one that has asked is not kept for ever.
func TestSlowClients(t *testing.T) {
	f := guarded(t, nil)
	for path, ln := range f.ports() {
		for what, text := range map[string]string{"nothing": "", "half a head": "GET " + path + " HTTP/1.1\r\nHost: x\r\nX-Slow:"} {
			t.Run(ln.Addr().String()+path+" "+what, func(t *testing.T) {
				t.Parallel()
				conn := dial(t, ln)
				began := time.Now()
				if _, err := io.WriteString(conn, text); err != nil {
					t.Fatal(err)
				}
				if got := untilClosed(t, conn); strings.Contains(got, "HTTP/1.1 200") {
					t.Errorf("answer = %q", got)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
	t.Run("a body that stalls", func(t *testing.T) {
		t.Parallel()
		conn := dial(t, f.data)
		fmt.Fprint(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"model\":")
		if got := untilClosed(t, conn); !strings.HasPrefix(got, "HTTP/1.1 408") {
			t.Errorf("answer = %q, want 408", got)
		}
	})
	t.Run("a handshake that stalls", func(t *testing.T) {
		t.Parallel()
		cert, key := newCert(t)
		f := guarded(t, func(c *Config) { c.TLSCert, c.TLSKey, c.TLSListeners = cert, key, tlsListeners() })
		for _, ln := range f.ports() {
			conn := dial(t, ln)
			_, _ = conn.Write([]byte{22, 3, 1, 2, 0, 1}) // the begin of a ClientHello
			untilClosed(t, conn)
		}
	})
}

// TestLongHeads: a head is bounded at every listener.
func TestLongHeads(t *testing.T) {
	f := guarded(t, nil)
	for path, ln := range f.ports() {
		conn := dial(t, ln)
		go func() {
			_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n")
			for range 1 << 14 { // 16 MiB if it is let
				if _, err := io.WriteString(conn, "X-Long: "+strings.Repeat("x", 1013)+"\r\n"); err != nil {
					return
				}
			}
		}()
		if got := untilClosed(t, conn); !strings.HasPrefix(got, "HTTP/1.1 431") && got != "" { // or a reset that overtakes it
			t.Errorf("%s: answer = %q, want 431", path, got)
		}
	}
}

// TestServerTellsNothingOfItself: no header says what it is, and no engine's host.
func TestServerTellsNothingOfItself(t *testing.T) {
	f := guarded(t, nil)
	for path, ln := range f.ports() {
		for _, path := range []string{path, "/nothing", "/..%2f"} {
			resp, err := newClient(t).Get("http://" + ln.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for _, name := range []string{"Server", "X-Powered-By", "Via", "Access-Control-Allow-Origin"} {
				if v := resp.Header.Get(name); v != "" {
					t.Errorf("%s: %s: %s", path, name, v)
				}
			}
		}
	}
}

// TestTooManyConnections: one too many is refused at once and counted, those that
// are open are served, and so is the watchdog.
func TestTooManyConnections(t *testing.T) {
	const most = 8
	f := guarded(t, func(c *Config) { c.MaxConnections, c.HeaderRead, c.IdleConnection = most, time.Minute, time.Minute })
	q := f.quotas[socketData]
	if !eventually(func() bool { return q.open.Load() == 0 }) {
		t.Fatal("connections at the start")
	}
	var open []net.Conn
	for range most {
		open = append(open, dial(t, f.data))
	}
	if !eventually(func() bool { return q.open.Load() == most }) {
		t.Fatalf("%d connections are open, want %d", q.open.Load(), most)
	}
	for range 50 {
		if err := oneTooMany(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.watchdog.ask(t.Context(), f.watchdog.client(f.data, false), 5*time.Second); err != nil {
		t.Errorf("no sign of life: %v", err)
	}
	if !eventually(func() bool { return q.open.Load() == most }) {
		t.Errorf("%d connections are open, want %d: the watchdog's has ended", q.open.Load(), most)
	}
	page := scrape(t, f.scrape.Addr().String())
	for series, want := range map[string]float64{"pdrouter_connections": most, "pdrouter_connections_limit": most, "pdrouter_connections_refused_total": 50} {
		if got := page.sum(series, `listener="data"`); got != want {
			t.Errorf("%s = %v, want %v", series, got, want)
		}
	}
	fmt.Fprint(open[0], "GET /readiness HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if got := untilClosed(t, open[0]); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("one that is open: %q", got)
	}
	if !eventually(func() bool { status, _ := get(newClient(t), f.base+"/readiness"); return status == 200 }) {
		t.Error("there is room again, and nobody is let in")
	}
}

// oneTooMany opens a connection, and returns an error if it is not closed at once.
func oneTooMany(ln net.Listener) error {
	conn, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = conn.Read(make([]byte, 1))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return fmt.Errorf("one too many: %w, want that it is closed", err)
}

// TestFullAtAUnixSocket: the watchdog gets through there too.
func TestFullAtAUnixSocket(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.Host, c.MaxConnections = "unix:"+filepath.Join(t.TempDir(), "s"), 1 }})
	dial(t, f.data)
	if !eventually(func() bool { return f.quotas[socketData].open.Load() == 1 }) {
		t.Fatal("not open")
	}
	if err := oneTooMany(f.data); err != nil {
		t.Error(err)
	}
	if err := f.watchdog.ask(t.Context(), f.watchdog.client(f.data, false), 5*time.Second); err != nil {
		t.Errorf("no sign of life: %v", err)
	}
}

func TestConnectionsForFiles(t *testing.T) {
	for files, want := range map[uint64]int64{0: 64, 512: 64, 1024: 170, 65536: 21674, 524288: 65536, 1 << 63: 65536} {
		if got := connectionsFor(files); got != want {
			t.Errorf("connectionsFor(%d) = %d, want %d", files, got, want)
		}
	}
}

// A frames is a client of HTTP/2 that says what it likes.
type frames struct {
	*tls.Conn
	t *testing.T
}

// The parts of HTTP/2 that it needs.
const (
	frameHeaders, frameReset, frameSettings, frameGoAway, frameContinuation = 1, 3, 4, 7, 9
	endStream, endHeaders                                                   = 1, 4
)

func newFrames(t *testing.T, f *fleet, cert string) *frames {
	t.Helper()
	conn, err := tls.Dial("tcp", f.data.Addr().String(), &tls.Config{RootCAs: trusting(t, cert), ServerName: "localhost", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	c := &frames{conn, t}
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	_ = c.send(frameSettings, 0, 0, nil)
	return c
}

func (c *frames) send(kind, flags byte, stream uint32, payload []byte) error {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	_, err := c.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
	return err
}

// post is the header block of a request for a chat answer.
func postBlock() []byte {
	block := []byte{0x83, 0x87} // :method POST, :scheme https
	for _, field := range [][2]string{{":path", "/v1/chat/completions"}, {":authority", "localhost"}} {
		block = append(append(append(block, 0, byte(len(field[0]))), field[0]...), byte(len(field[1])))
		block = append(block, field[1]...)
	}
	return block
}

// drain reads frames until the connection ends, and reports whether the other side
// ended it.
func (c *frames) drain() (gone bool) {
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			late, ok := errors.AsType[net.Error](err)
			return !ok || !late.Timeout()
		}
		gone = gone || head[3] == frameGoAway
		if _, err := io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			return true
		}
	}
}

// TestHostileHTTP2: streams that are reset as soon as they are opened
// (CVE-2023-44487), heads without an end, and heads that never come cost no memory
// that grows, no goroutines without bound, and no other client his answer.
func TestHostileHTTP2(t *testing.T) {
	cert, key := newCert(t)
	f := guarded(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	before, goroutines := heap(), runtime.NumGoroutine()
	for what, attack := range map[string]func(*frames) error{
		"resets": func(c *frames) (err error) {
			for stream := uint32(1); stream < 40000 && err == nil; stream += 2 {
				err = errors.Join(c.send(frameHeaders, endHeaders, stream, postBlock()), c.send(frameReset, 0, stream, []byte{0, 0, 0, 8}))
			}
			return err
		},
		"a head without end": func(c *frames) (err error) {
			err = c.send(frameHeaders, 0, 1, postBlock())
			for i := 0; i < 1<<12 && err == nil; i++ { // 64 MiB if it is let
				err = c.send(frameContinuation, 0, 1, append([]byte{0, 1, 'x', 0x7f, 0x81, 0x7e}, make([]byte, 16384-6)...))
			}
			return err
		},
		"nothing": func(*frames) error { return nil },
	} {
		t.Run(what, func(t *testing.T) {
			c := newFrames(t, f, cert)
			ended := make(chan bool, 1)
			go func() { ended <- c.drain() }()
			began := time.Now()
			err := attack(c)
			t.Logf("%v; %d goroutines, was %d; %d KiB of heap, was %d", err, runtime.NumGoroutine(), goroutines, heap()>>10, before>>10)
			if n := runtime.NumGoroutine() - goroutines; n > 4*mostStreams {
				t.Errorf("%d goroutines more than before", n)
			}
			if now := heap(); now > before+64<<20 {
				t.Errorf("%d bytes of heap, was %d", now, before)
			}
			wantChat(t, newTLSClient(t, cert, 2), f.base, 2)
			if !<-ended {
				t.Errorf("the connection is open after %v", time.Since(began))
			}
		})
	}
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestStreamsOfOneConnection are bounded, as it is told at its begin.
func TestStreamsOfOneConnection(t *testing.T) {
	cert, key := newCert(t)
	f := guarded(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	c := newFrames(t, f, cert)
	head := make([]byte, 9)
	if _, err := io.ReadFull(c, head); err != nil || head[3] != frameSettings {
		t.Fatalf("first frame = %v, %v, want settings", head, err)
	}
	settings := make([]byte, int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(c, settings); err != nil {
		t.Fatal(err)
	}
	const streams = 3
	for ; len(settings) >= 6; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == streams {
			if got := binary.BigEndian.Uint32(settings[2:]); got != mostStreams {
				t.Errorf("%d streams may be open, want %d", got, mostStreams)
			}
			return
		}
	}
	t.Error("it is not told how many streams may be open")
}

// TestWrongKeys: a wrong key costs no engine anything, and is told in
// the same words as none.
func TestWrongKeys(t *testing.T) {
	f := guarded(t, func(c *Config) { c.Router.APIKeys = keys.Of(aliceKey) })
	body, _ := chatBody(t, false)
	answers := map[string]bool{}
	for i := range 200 {
		status, answer, err := request(t, http.MethodPost, f.base+"/v1/chat/completions", strings.Repeat("x", i), body)
		if status != 401 || err != nil {
			t.Fatalf("answer = %d %s, %v, want 401", status, answer, err)
		}
		answers[answer] = true
	}
	if len(answers) != 1 {
		t.Errorf("%d different answers tell keys apart: %v", len(answers), answers)
	}
	page := scrape(t, f.scrape.Addr().String())
	for _, e := range append(f.prefill, f.decode...) {
		if n := page.legs(e.URL()); n != 0 {
			t.Errorf("an engine had %d requests", n)
		}
	}
}
