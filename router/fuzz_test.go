package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// forget returns the legs that came and forgets them.
func (e *engine) forget() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	legs := e.legs
	e.legs = nil
	return legs
}

// FuzzRequest throws bytes at the listener. Whatever they are, the router ends
// the connection in time, what reaches an engine is one JSON object under a
// head of ours, and at rest nothing is under way.
func FuzzRequest(f *testing.F) {
	post := func(path, headers, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\n%sContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
	}
	for _, seed := range []string{
		"", "\r\n", "GET / HTTP/1.1\r\n", "GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n",
		post("/v1/chat/completions", "", chatRequest),
		post("/v1/chat/completions", "", streamRequest),
		post("/v1/completions", "Content-Type: application/json\r\n", `{"model":"m","prompt":["a","b"],"stream":true,"echo":true}`),
		post("/generate", "Expect: 100-continue\r\n", `{"text":"hi","sampling_params":{"n":1},"rid":"x","bootstrap_room":1}`),
		post("/v1/chat/completions", "Content-Encoding: gzip\r\n", gzipped(chatRequest)),
		post("/v1/chat/completions", "Content-Encoding: deflate\r\n", zlibbed(chatRequest)),
		post("/v1/chat/completions", "", `{"model":"m","\u0062ootstrap_room":1,"messages":[[[{"a":"\ud83d"}]]]}`),
		post("/v1/chat/completions", "Traceparent: "+traceparent+"\r\nX-Smg-Routing-Key: k\r\nAuthorization: Bearer x\r\n", chatRequest) + post("/v1/completions", "", chatRequest),
		"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n" + strings.TrimSuffix(chunked(chatRequest), "\r\n") + "X: y\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n{}   ",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	fleet := newFleet(f, "sglang", reply(200, chatAnswer), fuzzDecode, func(c *Config) {
		c.BodyStall, c.MaxBodyBytes = 50*time.Millisecond, 1<<20
	})
	paths := []string{"/v1/chat/completions", "/v1/completions", "/generate"}
	f.Fuzz(func(t *testing.T, request []byte) {
		conn, err := net.Dial("tcp", fleet.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		conn.Write(request) // as much as is taken
		io.WriteString(conn, "\r\n\r\nGET /liveness HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		conn.(*net.TCPConn).CloseWrite()

		said, err := io.ReadAll(conn)

		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection does not end; so far it says %q", said)
		}
		if len(said) > 0 && !strings.HasPrefix(string(said), "HTTP/1.") {
			t.Errorf("the client reads %q, want an answer", said)
		}
		for _, l := range append(fleet.prefill.forget(), fleet.decode.forget()...) {
			if !slices.Contains(paths, l.path) || !json.Valid([]byte(l.body)) || l.body[0] == '[' || len(l.header) > 7 {
				t.Errorf("an engine got %s %q %q", l.path, l.header, l.body)
			}
		}
	})
}

// fuzzDecode answers as it is asked to.
func fuzzDecode(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/generate" {
		reply(200, `{"text":"x","meta_info":{"finish_reason":{"type":"stop"}}}`)(w, r)
		return
	}
	events(tokenEvent(1), finishEvent, doneEvent)(w, r)
}
