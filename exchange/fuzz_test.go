package exchange

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A reading is what net/http makes of an answer, which judges ours.
type reading struct {
	status int
	body   string
	whole  bool // the body is
	toEnd  bool // the body goes on to the end of the connection
	left   int  // bytes behind it
}

func readingOf(say []byte, method string) reading {
	r := bufio.NewReaderSize(bytes.NewReader(say), len(say)+16)
	for {
		answer, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return reading{}
		}
		if answer.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(answer.Body)
		toEnd := method != "HEAD" && answer.ContentLength < 0 && len(answer.TransferEncoding) == 0
		answer.Body.Close()
		return reading{status: answer.StatusCode, body: string(body), whole: err == nil, toEnd: toEnd, left: r.Buffered()}
	}
}

// A saying engine is one that the fuzz target tells what to say.
type sayingEngine struct {
	net.Listener
	next chan sayingOrder
}

type sayingOrder struct {
	say  []byte
	hold bool          // leave the connection open
	said chan struct{} // closed when all is said
}

// run serves one connection for each order. The client closes first.
func (e sayingEngine) run() {
	for order := range e.next {
		c, err := e.Accept()
		if err != nil {
			return
		}
		r := bufio.NewReader(c)
		_, _ = http.ReadRequest(r)
		_, _ = c.Write(order.say)
		close(order.said)
		if !order.hold {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		_, _ = io.Copy(io.Discard, r)
		c.Close()
	}
}

// FuzzAnswer lets the engine say anything. Whatever it is, the exchange ends
// soon and does not panic; if we call the body whole, net/http reads the same;
// and no connection with a byte left on it is used again.
func FuzzAnswer(f *testing.F) {
	for _, c := range answerCases() {
		if len(c.say) < 1000 {
			f.Add([]byte(c.say), c.method == "HEAD")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	engine := sayingEngine{Listener: l, next: make(chan sayingOrder)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		engine.run()
	}()
	f.Cleanup(func() {
		close(engine.next)
		l.Close()
		<-ended
	})
	f.Fuzz(func(t *testing.T, say []byte, isHead bool) {
		fuzzAnswer(t, engine, say, isHead)
	})
}

func fuzzAnswer(t *testing.T, engine sayingEngine, say []byte, isHead bool) {
	const bound = time.Second
	req := &Request{Path: "/", FirstByte: bound}
	if isHead {
		req.Method = "HEAD"
	}
	want := readingOf(say, req.method())
	if bytes.Contains(bytes.ToLower(say), []byte("\ntrailer")) {
		return // net/http is strict about the names in it; we ignore trailers
	}
	order := sayingOrder{say: say, hold: want.whole && !want.toEnd, said: make(chan struct{})}
	p, err := NewPeer("http://"+engine.Addr().String(), DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	engine.next <- order
	a, err := p.Do(t.Context(), req)
	if err != nil {
		wantError(t, err)
		wantStats(t, p, Stats{})
		return
	}
	defer a.Close()
	a.SetIdle(bound)
	body, err := io.ReadAll(a)
	if err != nil {
		wantError(t, err)
	} else if !want.whole || a.Status != want.status || string(body) != want.body {
		t.Fatalf("answer = %d %q, whole; net/http reads %+v", a.Status, body, want)
	}
	a.Close()
	if p.Stats().Idle == 0 {
		wantStats(t, p, Stats{})
		return
	}
	within(t, bound, order.said, "the engine says all")
	c, err := p.pool.take(time.Now())
	if c == nil || err != nil {
		p.pool.release()
		return
	}
	p.pool.drop(c)
	if want.left > 0 || want.toEnd {
		t.Fatalf("a connection with %d bytes left on it is used again", want.left)
	}
}

// FuzzRequest lets a caller put anything into a request. It is refused, or it is
// one request of the lines that were asked for.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/v1/completions", "Content-Type", "application/json")
	f.Add("", "/", "X", "a\r\nY: b")
	f.Add("GET", "/ HTTP/1.1\r\n\r\n", "X\r\n", "")
	f.Add("G\x00", "/\x00", "\x00", "\x00")
	f.Fuzz(func(t *testing.T, method, path, name, value string) {
		req := &Request{Method: method, Path: path, Header: []Field{{name, value}}}
		if err := req.check(); err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatalf("check() = %v, want ErrRequest", err)
			}
			return
		}
		wire := string(req.appendHead(nil, "host", 1))
		want := []string{
			fmt.Sprintf("%s %s HTTP/1.1", req.method(), path), "Host: host",
			fmt.Sprintf("%s: %s", name, value), "Content-Length: 1", "", "",
		}
		lines := strings.Split(wire, "\r\n")
		if fmt.Sprint(lines) != fmt.Sprint(want) || len(lines) != len(want) {
			t.Fatalf("request has the lines %q, want %q", lines, want)
		}
		if strings.ContainsAny(strings.Join(lines, ""), "\r\n\x00") || strings.Count(lines[0], " ") != 2 {
			t.Fatalf("request has the lines %q, which can be read in two ways", lines)
		}
		if _, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire))); err != nil && !strings.Contains(err.Error(), "parse") {
			t.Fatalf("net/http does not read %q: %v", wire, err)
		}
	})
}
