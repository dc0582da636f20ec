package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// An answerCase is one answer, byte for byte, and what becomes of it.
type answerCase struct {
	name   string
	method string // POST when empty
	say    string
	closes bool // the engine closes behind it

	status int    // 0: Do fails
	body   string // as far as it can be read
	err    string // of Do or Read; empty: the body is whole
	length int64
	pooled bool
}

func answerCases() []answerCase {
	const head = "HTTP/1.1 200 OK\r\n"
	const chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	long := strings.Repeat("x", 70<<10)
	return []answerCase{
		// Whole answers.
		{name: "a body by length", say: head + "Content-Length: 5\r\n\r\nhello", status: 200, body: "hello", length: 5, pooled: true},
		{name: "an empty body by length", say: head + "Content-Length: 0\r\n\r\n", status: 200, pooled: true},
		{name: "the same length twice", say: head + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", length: 5, pooled: true},
		{name: "a chunked body", say: chunked + "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", status: 200, body: "hello world", length: -1, pooled: true},
		{name: "an empty chunked body", say: chunked + "0\r\n\r\n", status: 200, length: -1, pooled: true},
		{name: "chunked in capitals", say: head + "TRANSFER-ENCODING: CHUNKED\r\n\r\n1\r\nx\r\n0\r\n\r\n", status: 200, body: "x", length: -1, pooled: true},
		{name: "chunk extensions and trailers", say: chunked + "5;a=b\r\nhello\r\n0\r\nDigest: x\r\nContent-Length: 3\r\n\r\n", status: 200, body: "hello", length: -1, pooled: true},
		{name: "a body to the end", say: head + "\r\nhello", closes: true, status: 200, body: "hello", length: -1},
		{name: "an empty body to the end", say: head + "\r\n", closes: true, status: 200, length: -1},
		{name: "a closing engine", say: head + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", closes: true, status: 200, body: "hello", length: 5},
		{name: "a closing engine that lingers", say: head + "Connection: foo, Close\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", length: 5},
		{name: "HTTP/1.0", say: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", length: 5},
		{name: "HTTP/1.0 that stays", say: "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", length: 5, pooled: true},
		{name: "HTTP/1.0 to the end", say: "HTTP/1.0 200 OK\r\n\r\nhello", closes: true, status: 200, body: "hello", length: -1},
		{name: "204 has no body", say: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, pooled: true},
		{name: "304 has no body, whatever its length says", say: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304, pooled: true},
		{name: "HEAD has no body, whatever its length says", method: "HEAD", say: head + "Content-Length: 5\r\n\r\n", status: 200, pooled: true},
		{name: "HEAD has no body, though chunked", method: "HEAD", say: chunked, status: 200, pooled: true},
		{name: "no reason phrase", say: "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", status: 503, pooled: true},
		{name: "lines that end in LF alone", say: "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", status: 200, body: "hello", length: 5, pooled: true},
		{name: "several 1xx heads", say: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\nContent-Length: 9\r\n\r\nHTTP/1.1 102 x\r\n\r\n" + okAnswer, status: 200, body: "ok", length: 2, pooled: true},
		{name: "a folded header is one header", say: head + "X-Note: a\r\n Content-Length: 3\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", length: 5, pooled: true},

		// Bodies that were cut or are not well formed.
		{name: "cut in the body", say: head + "Content-Length: 10\r\n\r\nhello", closes: true, status: 200, body: "hello", length: 10, err: "unexpected EOF"},
		{name: "cut before the body", say: head + "Content-Length: 10\r\n\r\n", closes: true, status: 200, length: 10, err: "unexpected EOF"},
		{name: "cut before a chunk", say: chunked, closes: true, status: 200, length: -1, err: "unexpected EOF"},
		{name: "cut in a chunk", say: chunked + "a\r\nhello", closes: true, status: 200, body: "hello", length: -1, err: "unexpected EOF"},
		{name: "cut in a chunk's size", say: chunked + "5\r\nhello\r\n5", closes: true, status: 200, body: "hello", length: -1, err: "unexpected EOF"},
		{name: "cut behind a chunk", say: chunked + "5\r\nhello", closes: true, status: 200, body: "hello", length: -1, err: "unexpected EOF"},
		{name: "cut before the last chunk", say: chunked + "5\r\nhello\r\n", closes: true, status: 200, body: "hello", length: -1, err: "unexpected EOF"},
		{name: "cut before the last line", say: chunked + "5\r\nhello\r\n0\r\n", closes: true, status: 200, body: "hello", length: -1, err: "unexpected EOF"},
		{name: "cut in the trailers", say: chunked + "5\r\nhello\r\n0\r\nDigest: x\r\n", closes: true, status: 200, body: "hello", length: -1, err: "unexpected EOF"},
		{name: "a chunk size that is none", say: chunked + "xyz\r\n", status: 200, length: -1, err: "invalid byte in chunk length"},
		{name: "a negative chunk size", say: chunked + "-1\r\n", status: 200, length: -1, err: "invalid byte in chunk length"},
		{name: "a chunk size beyond 64 bits", say: chunked + "fffffffffffffffff\r\n", status: 200, length: -1, err: "chunk length too large"},
		{name: "a chunk longer than its size", say: chunked + "2\r\nhello\r\n0\r\n\r\n", status: 200, body: "he", length: -1, err: "malformed chunked encoding"},
		{name: "a chunk line without end", say: chunked + "1;" + long, status: 200, length: -1, err: "line too long"},
		{name: "a trailer line without end", say: chunked + "0\r\nX: " + long, status: 200, length: -1, err: "trailers are larger"},
		{name: "a trailer that ends in LF alone", say: chunked + "0\r\n\n\r\n", status: 200, length: -1, err: "malformed trailer"},
		{name: "a trailer that is no header", say: chunked + "0\r\nHTTP/1.1 200 OK\r\n\r\n", status: 200, length: -1, err: "malformed trailer"},
		{name: "trailers without end", say: chunked + "0\r\n" + strings.Repeat("X: y\r\n", 2000), status: 200, length: -1, err: "trailers are larger"},

		// Heads that can be read in two ways, or in none.
		{name: "length and chunked", say: head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", err: "both content-length and transfer-encoding"},
		{name: "two lengths", say: head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", err: "two lengths"},
		{name: "two lengths in one line", say: head + "Content-Length: 5, 5\r\n\r\nhello", err: "content-length"},
		{name: "a negative length", say: head + "Content-Length: -5\r\n\r\nhello", err: "content-length"},
		{name: "a signed length", say: head + "Content-Length: +5\r\n\r\nhello", err: "content-length"},
		{name: "a length in hex", say: head + "Content-Length: 0x5\r\n\r\nhello", err: "content-length"},
		{name: "an empty length", say: head + "Content-Length:\r\n\r\nhello", err: "content-length"},
		{name: "a length beyond 63 bits", say: head + "Content-Length: 9223372036854775808\r\n\r\nhello", err: "content-length"},
		{name: "a length with underscores", say: head + "Content-Length: 1_0\r\n\r\nhello", err: "content-length"},
		{name: "a bad length in a 1xx head", say: "HTTP/1.1 100 Continue\r\nContent-Length: x\r\n\r\n" + okAnswer, err: "content-length"},
		{name: "an unknown coding", say: head + "Transfer-Encoding: gzip, chunked\r\n\r\n", err: "transfer-encoding"},
		{name: "chunked twice", say: head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", err: "transfer-encoding"},
		{name: "chunked in HTTP/1.0", say: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", err: "transfer-encoding in HTTP/1.0"},
		{name: "101", say: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", err: "101"},
		{name: "another version", say: "HTTP/2.0 200 OK\r\n\r\n", err: "malformed status line"},
		{name: "another protocol", say: "SSH-2.0-OpenSSH_9.6\r\n", err: "malformed status line"},
		{name: "a status of two digits", say: "HTTP/1.1 20 OK\r\n\r\n", err: "malformed status line"},
		{name: "a status with a sign", say: "HTTP/1.1 +20 OK\r\n\r\n", err: "malformed status line"},
		{name: "a status below 100", say: "HTTP/1.1 099 OK\r\n\r\n", err: "malformed status line"},
		{name: "no status", say: "HTTP/1.1\r\n\r\n", err: "malformed status line"},
		{name: "an empty line first", say: "\r\n" + okAnswer, err: "malformed status line"},
		{name: "a header without a colon", say: head + "Content-Length 5\r\n\r\n", err: "malformed header"},
		{name: "a space before the colon", say: head + "Content-Length : 5\r\n\r\n", err: "header name"},
		{name: "an empty header name", say: head + ": 5\r\n\r\n", err: "malformed header"},
		{name: "a space in a header name", say: head + "X Y: 5\r\n\r\n", err: "header name"},
		{name: "a fold before any header", say: head + " X: y\r\n\r\n", err: "malformed header"},
		{name: "NUL in a header", say: head + "X: a\x00b\r\n\r\n", err: "control character"},
		{name: "a bare CR in a header", say: head + "X: a\rContent-Length: 5\r\n\r\n", err: "control character"},
		{name: "nothing", closes: true, err: "unexpected EOF"},
		{name: "cut in the status line", say: "HTTP/1.1 20", closes: true, err: "unexpected EOF"},
		{name: "cut in the head", say: head + "Content-Length: 5\r\n", closes: true, err: "unexpected EOF"},
		{name: "cut in a header's name", say: head + "Content-Le", closes: true, err: "unexpected EOF"},
		{name: "cut behind a 1xx head", say: "HTTP/1.1 100 Continue\r\n\r\n", closes: true, err: "unexpected EOF"},
		{name: "a status line without end", say: "HTTP/1.1 200 " + long, err: "line too long"},
		{name: "a header without end", say: head + "X: " + long, err: "head is larger"},
		{name: "headers without end", say: head + strings.Repeat("X: y\r\n", 12000), err: "head is larger"},
		{name: "1xx heads without end", say: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 3000), err: "head is larger"},

		// What is left over.
		{name: "bytes behind the body", say: okAnswer + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", status: 200, body: "ok", length: 2},
		{name: "bytes behind the chunks", say: chunked + "0\r\n\r\nx", status: 200, length: -1},
		{name: "bytes behind an answer without a body", say: "HTTP/1.1 204 No Content\r\n\r\nx", status: 204},
		{name: "a chunked body where there is none", say: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 204},
		{name: "a body for HEAD", method: "HEAD", say: okAnswer, status: 200},
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range answerCases() {
		t.Run(c.name, func(t *testing.T) { c.run(t, (*line).say) })
		if len(c.say) < 1000 {
			t.Run(c.name+", byte by byte", func(t *testing.T) { c.run(t, (*line).sayBytewise) })
		}
	}
}

func (c answerCase) run(t *testing.T, say func(*line, string)) {
	said := make(chan struct{})
	url := serve(t, func(l *line) {
		l.request()
		say(l, c.say)
		close(said)
		if !c.closes {
			l.untilClosed()
		}
	}, func(*line) {})
	p := dialled(t, url)
	req := post()
	req.Method = c.method
	a, err := p.Do(t.Context(), req)
	if err != nil {
		if e := wantError(t, err); c.status != 0 || e.Phase != Head || e.Stale || e.Timeout || !strings.Contains(err.Error(), c.err) || c.err == "" {
			t.Fatalf("Do() = %v (%+v), want status %d, %q", err, e, c.status, c.err)
		}
		wantStats(t, p, Stats{})
		return
	}
	a.SetIdle(patience)
	body, err := io.ReadAll(a)
	if a.Status != c.status || string(body) != c.body || a.Length() != c.length {
		t.Errorf("answer = %d, length %d, %q; want %d, %d, %q", a.Status, a.Length(), body, c.status, c.length, c.body)
	}
	if c.err == "" && err != nil {
		t.Errorf("Read() = %v, want io.EOF", err)
	}
	if c.err != "" {
		if e := wantError(t, err); e.Phase != Body || e.Stale || !strings.Contains(err.Error(), c.err) {
			t.Errorf("Read() = %v (%+v), want %q", err, e, c.err)
		}
	}
	within(t, patience, said, "the engine says all")
	a.Close()
	wantReused(t, p, c.pooled)
}

// wantReused checks whether the next exchange would get a used connection.
func wantReused(t *testing.T, p *Peer, want bool) {
	t.Helper()
	c, err := p.pool.take(time.Now())
	if err != nil || (c != nil) != want {
		t.Errorf("connection is used again: %v (%v), want %v", c != nil, err, want)
	}
	if c != nil {
		p.pool.drop(c)
	} else {
		p.pool.release()
	}
	wantStats(t, p, Stats{})
}

func TestAnswerHeaderIsAsSent(t *testing.T) {
	p := dialled(t, serve(t, saying("HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nX-Two: a\r\nx-two: b\r\nContent-Length: 0\r\n\r\n")))
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	want := Header{{"retry-after", "7"}, {"X-Two", "a"}, {"x-two", "b"}, {"Content-Length", "0"}}
	if !slices.Equal(a.Header, want) {
		t.Errorf("Header = %v, want %v", a.Header, want)
	}
	if two := slices.Collect(a.Header.Values("X-TWO")); !slices.Equal(two, []string{"a", "b"}) || a.Header.Get("Retry-After") != "7" || a.Header.Get("X") != "" {
		t.Errorf("X-Two is %q, Retry-After %q, X %q", two, a.Header.Get("Retry-After"), a.Header.Get("X"))
	}
}

func TestReadReturnsWhatIsThere(t *testing.T) {
	next := make(chan string)
	p := dialled(t, serve(t, func(l *line) {
		l.request()
		l.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for s := range next {
			l.say(s)
		}
		l.untilClosed()
	}))
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.SetIdle(patience)
	buf := make([]byte, 1024)
	// The last one comes together with the last chunk's head, and must not wait
	// for the line that ends the body.
	for _, s := range []string{"6\r\ndata: \r\n", "2\r\n1\n\r\n3\r\nabc\r\n", "5\r\nhello\r\n0\r\n"} {
		next <- s
		if n, err := a.Read(buf); n == 0 || err != nil {
			t.Fatalf("Read() after %q = %d, %v", s, n, err)
		}
	}
	next <- "\r\n"
	close(next)
	if n, err := a.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("Read() at the end = %d, %v, want io.EOF", n, err)
	}
}

func TestReadErrorStays(t *testing.T) {
	p := dialled(t, serve(t, func(l *line) {
		l.request()
		l.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
	}))
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, first := io.ReadAll(a)
	_, second := a.Read(make([]byte, 10))
	if first == nil || !errors.Is(second, first) {
		t.Errorf("Read() = %v, then %v, want the same", first, second)
	}
}

func TestCloseOfAnUnreadBodyClosesTheConnection(t *testing.T) {
	closed := make(chan struct{})
	p := dialled(t, serve(t, func(l *line) {
		l.request()
		l.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		l.untilClosed()
		close(closed)
	}))
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := a.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil) = %d, %v, want 0, nil", n, err)
	}
	for range 3 {
		if err := a.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	within(t, patience, closed, "the engine sees the connection close")
	wantStats(t, p, Stats{})
	if n, err := a.Read(make([]byte, 10)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read() after Close = %d, %v, want an error", n, err)
	}
}

func TestHeadOfExactlyTheLimit(t *testing.T) {
	const limit = 2048
	prefix, suffix := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 100000\r\nX: ", "\r\n\r\n"
	for _, over := range []int{0, 1} {
		t.Run(fmt.Sprintf("and %d more", over), func(t *testing.T) {
			padding := strings.Repeat("x", limit-len(prefix)-len(suffix)+over)
			p := dialled(t, serve(t, saying(prefix+padding+suffix+strings.Repeat("b", 100000))), func(c *Config) { c.MaxHeadBytes = limit })
			a, err := p.Do(t.Context(), post())
			if over > 0 {
				wantError(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if body, err := io.ReadAll(a); len(body) != 100000 || err != nil {
				t.Errorf("body of %d bytes, %v, want 100000", len(body), err)
			}
		})
	}
}

// TestExchangeAgainstNetHTTP runs over what most servers in Go are.
func TestExchangeAgainstNetHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		<-served
	})
	p := dialled(t, "http://"+l.Addr().String())
	for _, size := range []int{0, 1, 4096, 64 << 10, 4 << 20} {
		want := bytes.Repeat([]byte("abcdefg\n"), size/8)
		req := &Request{Path: "/", Body: [][]byte{want[:len(want)/3], want[len(want)/3:]}, FirstByte: patience}
		if got := exchanged(t, p, req); got != string(want) {
			t.Errorf("echo of %d bytes has %d", len(want), len(got))
		}
	}
	wantStats(t, p, Stats{Open: 1, Idle: 1})
	p.Close()
}
