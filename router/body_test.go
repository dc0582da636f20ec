package router

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestTooLarge sends 300 MB against a limit of 256 MiB, or as much as is taken.
func TestTooLarge(t *testing.T) {
	const chunks = "Transfer-Encoding: chunked"
	tests := []struct {
		name, framing string
		maxBody       int64
		limit         uint64 // of memory allocated, in bytes
	}{
		{"and says so", "Content-Length: 300000000", 256 << 20, 8 << 20},
		{"and waits to be asked", "Expect: 100-continue\r\nContent-Length: 300000000", 256 << 20, 8 << 20},
		{"in chunks", chunks, 16 << 20, 2*16<<20 + 8<<20},
	}
	block := bytes.Repeat([]byte(" "), 1<<20)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newServingFleet(t, func(c *Config) { c.MaxBodyBytes = tt.maxBody })
			before := allocated()
			conn := f.connect(t)
			fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", tt.framing)
			done := make(chan struct{})
			go func() {
				defer close(done)
				sendBlocks(conn, block, tt.framing == chunks)
			}()

			got, closed := readAnswer(t, conn)

			wantError(t, got, 413, "request_too_large")
			if !closed {
				t.Error("the connection stays open, want it closed")
			}
			conn.Close()
			<-done
			if grown := allocated() - before; grown > tt.limit {
				t.Errorf("memory allocated = %d MiB, want at most %d", grown>>20, tt.limit>>20)
			}
			f.wantUntouched(t)
		})
	}
}

// sendBlocks writes a block 300 times, or as often as it is taken.
func sendBlocks(w io.Writer, block []byte, chunks bool) {
	before, behind := "", ""
	if chunks {
		before, behind = fmt.Sprintf("%x\r\n", len(block)), "\r\n"
	}
	for range 300 {
		io.WriteString(w, before)
		if _, err := w.Write(block); err != nil {
			return
		}
		io.WriteString(w, behind)
	}
}

// allocated returns how much has been allocated since the process began.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestPromises is about clients that promise 200 MB and send nothing.
func TestPromises(t *testing.T) {
	const clients = 50
	f := newServingFleet(t, func(c *Config) { c.MaxBufferedBytes = 16 << 20 })
	before := allocated()
	for range clients {
		io.WriteString(f.connect(t), "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 200000000\r\n\r\n{")
	}
	wait(t, "all to be read", func() bool { return f.handler.BufferedBytes() >= clients*firstRead })

	if grown := allocated() - before; grown > clients*200<<10 {
		t.Errorf("memory allocated = %d KiB for each promise, want at most 200", grown/clients>>10)
	}
	if got := f.post(t, "/v1/chat/completions", chatRequest); got.status != 200 {
		t.Errorf("another client gets %d %s, want 200", got.status, got.body)
	}
}

// TestUnfinishedBodies is about clients that stop in the middle of a request,
// and answers that do not wait for the rest.
func TestUnfinishedBodies(t *testing.T) {
	const post = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
	tests := []struct {
		name, request string
		half          bool // the client closes its half of the connection
		wantStatus    int
		wantCode      string
	}{
		{"a body that stalls", post + "Content-Length: 99\r\n\r\n{", false, 408, "request_body_stalled"},
		{"a body that never begins", post + "Content-Length: 99\r\n\r\n", false, 408, "request_body_stalled"},
		{"a chunk that stalls", post + "Transfer-Encoding: chunked\r\n\r\n5\r\n{", false, 408, "request_body_stalled"},
		{"gzip that stalls", post + "Content-Encoding: gzip\r\nContent-Length: 99\r\n\r\n" + gzipped(chatRequest)[:20], false, 408, "request_body_stalled"},
		{"gzip whose head stalls", post + "Content-Encoding: gzip\r\nContent-Length: 99\r\n\r\n\x1f", false, 408, "request_body_stalled"},
		{"deflate that stalls behind its end", post + "Content-Encoding: deflate\r\nContent-Length: 999\r\n\r\n" + zlibbed(chatRequest), false, 408, "request_body_stalled"},
		{"a body shorter than its length", post + "Content-Length: 999\r\n\r\n" + chatRequest, true, 400, "body_unreadable"},
		{"chunks without an end", post + "Transfer-Encoding: chunked\r\n\r\n5\r\n{", true, 400, "body_unreadable"},
		{"a chunk that is none", post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n{", false, 400, "body_unreadable"},
		{"a wrong type", post + "Content-Type: text/plain\r\nContent-Length: 99\r\n\r\n", false, 415, "unsupported_media_type"},
		{"a wrong encoding", post + "Content-Encoding: br\r\nContent-Length: 99\r\n\r\n", false, 415, "unsupported_content_encoding"},
		{"a wrong path", "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n", false, 404, "not_found"},
		{"a wrong method", "PUT /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n", false, 405, "method_not_allowed"},
		{"what nobody carries", "POST /v1/responses HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", false, 501, "not_implemented"},
	}
	f := newServingFleet(t, func(c *Config) { c.BodyStall = 50 * time.Millisecond })
	t.Cleanup(func() { f.wantUntouched(t) })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn := f.connect(t)
			io.WriteString(conn, tt.request)
			if tt.half {
				conn.(*net.TCPConn).CloseWrite()
			}

			got, closed := readAnswer(t, conn)

			wantError(t, got, tt.wantStatus, tt.wantCode)
			if !closed || got.took > lastRead/2 {
				t.Errorf("closed = %t, answered after %v, want both at once", closed, got.took)
			}
			// The connection, and with it the goroutine, does not outlive lastRead.
			if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Errorf("behind the answer: %d bytes, %v; want the end", n, err)
			}
		})
	}
}

// TestSlowBody is about a client that is slow but does not stall.
func TestSlowBody(t *testing.T) {
	f := newServingFleet(t, func(c *Config) { c.BodyStall = time.Second })
	conn := f.connect(t)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", len(chatRequest))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range len(chatRequest) {
		<-tick.C
		io.WriteString(conn, chatRequest[i:i+1])
	}

	if got, _ := readAnswer(t, conn); got.status != 200 || got.body != chatAnswer {
		t.Errorf("answer = %d %s, want 200", got.status, got.body)
	}
}

// TestMemoryForBodies is about Config.MaxBufferedBytes.
func TestMemoryForBodies(t *testing.T) {
	release := make(chan struct{})
	blocked := then(func(http.ResponseWriter, *http.Request) { <-release }, reply(200, chatAnswer))
	f := newFleet(t, "sglang", blocked, blocked, func(c *Config) { c.MaxBufferedBytes = 48 << 10 })
	big := `{"model":"m","messages":[],"x":"` + strings.Repeat("x", 40<<10) + `"}`
	first := f.dial(t, "/v1/chat/completions", big)
	wait(t, "the first to reach an engine", func() bool { return len(f.prefill.got()) == 1 })

	got := f.post(t, "/v1/chat/completions", big)

	wantError(t, got, 503, "overloaded")
	if after := got.header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After = %q, want 1", after)
	}
	close(release)
	if got, _ := readAnswer(t, first); got.status != 200 {
		t.Errorf("the first client gets %d, want 200", got.status)
	}
	wait(t, "the memory to be given back", func() bool { return f.handler.BufferedBytes() == 0 })
	if got := f.post(t, "/v1/chat/completions", big); got.status != 200 {
		t.Errorf("afterwards a client gets %d %s, want 200", got.status, got.body)
	}
}

// TestVanishedWhileSending is about a client whose connection is reset in the
// middle of its body: it has left, and is not told that its body was bad.
func TestVanishedWhileSending(t *testing.T) {
	f := newServingFleet(t)
	conn := f.connect(t)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n{")
	wait(t, "the body to be read", func() bool { return f.handler.BufferedBytes() > 0 })
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()

	if entry := f.lastLog(t, 1); entry.Message != "client left" || entry.ContextMap()["status"] != int64(499) {
		t.Errorf("the log says %q %v, want that the client left", entry.Message, entry.ContextMap())
	}
}
