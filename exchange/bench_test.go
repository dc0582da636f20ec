package exchange

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
)

// bare serves connections with as little work as possible, so that what is
// measured is the client: it finds Content-Length, takes the body and writes
// answer.
func bare(b testing.TB, answer []byte) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go bareConn(c, answer)
		}
	}()
	return "http://" + l.Addr().String()
}

func bareConn(c net.Conn, answer []byte) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	for {
		length := 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// smallAnswer is what uvicorn writes for a short JSON answer.
func smallAnswer() []byte {
	body := `{"id":"cmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":1}}`
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: %d\r\ncontent-type: application/json\r\n\r\n%s", len(body), body)
}

// streamAnswer is an SSE answer of n chunks.
func streamAnswer(n int) []byte {
	b := []byte("HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")
	event := `data: {"id":"cmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n"
	for range n {
		b = fmt.Appendf(b, "%x\r\n%s\r\n", len(event), event)
	}
	return append(b, "0\r\n\r\n"...)
}

// TestAllocations holds what an exchange may allocate: the answer and its head's
// map and strings, and what context.AfterFunc makes. It must not grow with the
// prompt.
func TestAllocations(t *testing.T) {
	const most = 10
	url := bare(t, smallAnswer())
	p := dialled(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	buf := make([]byte, 4096)
	for _, size := range []int{1 << 10, 64 << 10} {
		req := &Request{Path: "/", Header: []Field{{"Content-Type", "application/json"}}, Body: [][]byte{pattern(size)}}
		got := testing.AllocsPerRun(200, func() {
			a, err := p.Do(ctx, req)
			for err == nil {
				_, err = a.Read(buf)
			}
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			a.Close()
		})
		if got > most {
			t.Errorf("an exchange with a body of %d bytes allocates %v times, want %d at most", size, got, most)
		}
	}
}

func BenchmarkExchangeSmall(b *testing.B) { benchmark(b, 1<<10, smallAnswer()) }

func BenchmarkExchange32KB(b *testing.B) { benchmark(b, 32<<10, smallAnswer()) }

func BenchmarkExchange1MB(b *testing.B) { benchmark(b, 1<<20, smallAnswer()) }

func BenchmarkStream256(b *testing.B) { benchmark(b, 1<<10, streamAnswer(256)) }

func benchmark(b *testing.B, size int, answer []byte) {
	body := bytes.Repeat([]byte("x"), size)
	b.Run("exchange", func(b *testing.B) { benchExchange(b, body, bare(b, answer)) })
	b.Run("transport", func(b *testing.B) { benchTransport(b, body, bare(b, answer)) })
}

func benchExchange(b *testing.B, body []byte, url string) {
	p, err := NewPeer(url, DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 32<<10)
		half := len(body) / 2
		req := &Request{
			Path:   "/v1/chat/completions",
			Header: []Field{{"Content-Type", "application/json"}, {"X-Request-Id", "0123456789abcdef"}},
			Body:   [][]byte{body[:half], body[half:]},
		}
		for pb.Next() {
			a, err := p.Do(ctx, req)
			if err != nil {
				b.Error(err)
				return
			}
			for err == nil {
				_, err = a.Read(buf)
			}
			if !errors.Is(err, io.EOF) {
				b.Error(err)
				return
			}
			a.Close()
		}
	})
}

func benchTransport(b *testing.B, body []byte, url string) {
	t := &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}
	defer t.CloseIdleConnections()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 32<<10)
		for pb.Next() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Request-Id", "0123456789abcdef")
			a, err := t.RoundTrip(req)
			if err != nil {
				b.Error(err)
				return
			}
			for err == nil {
				_, err = a.Body.Read(buf)
			}
			if !errors.Is(err, io.EOF) {
				b.Error(err)
				return
			}
			a.Body.Close()
		}
	})
}
