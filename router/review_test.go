package router

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestFailureWhileTheClientStalls is about I3: a failed leg ends its partner at
// once, also when a client that takes nothing has a write of ours hanging.
func TestFailureWhileTheClientStalls(t *testing.T) {
	verdict := make(chan struct{})
	prefill := func(w http.ResponseWriter, r *http.Request) {
		<-verdict
		reply(500, "{}")(w, r)
	}
	flood := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; r.Context().Err() == nil; i++ {
			if _, err := io.WriteString(w, tokenEvent(i)); err != nil {
				return
			}
		}
	}
	f := newFleet(t, "sglang", prefill, flood, func(c *Config) { c.ClientStall = 20 * time.Second })
	conn := f.dial(t, "/v1/chat/completions", streamRequest)
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	wait(t, "the answer to be let go without a verdict", func() bool { return f.value(t, "pdrouter_late_verdicts_total", nil) == 1 })
	pause := time.NewTimer(200 * time.Millisecond) // for the socket to fill
	<-pause.C

	failed := time.Now()
	close(verdict)

	select {
	case <-f.decode.closed:
	case <-time.After(5 * time.Second):
		t.Fatal("decode goes on 5s after prefill failed")
	}
	if d := time.Since(failed); d > time.Second {
		t.Errorf("decode went on for %v after prefill failed, want at most 1s", d)
	}
}

// slowTokens sends tokens until the router leaves.
func slowTokens(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; r.Context().Err() == nil; i++ {
		events(tokenEvent(i))(w, r)
		<-tick.C
	}
}

// TestStreamsLetGoOfBodies is about I9: what a request takes is given back when
// its stream is on its way, and not when it ends.
func TestStreamsLetGoOfBodies(t *testing.T) {
	const size = 1 << 20
	long := fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("x", size))
	for _, dialect := range []string{"sglang", "vllm-nixl"} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, dialect, reply(200, `{"choices":[],`+handOff+`}`), slowTokens,
				func(c *Config) { c.MaxBufferedBytes = 3 * size })
			for i := range 5 { // more than fit at a time
				conn := f.dial(t, "/v1/chat/completions", long)
				head := make([]byte, len("HTTP/1.1 200"))
				if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 200" {
					t.Fatalf("stream %d begins with %q (%v), want a 200", i, head, err)
				}
				wait(t, "the body to be let go", func() bool { return f.handler.BufferedBytes() == 0 })
			}
		})
	}
}

// TestLongAnswersCount is about I9 too: an answer that is held whole counts
// like a body when it is long, and nobody is blamed for what a client asked for.
func TestLongAnswersCount(t *testing.T) {
	long := `{"choices":[],"pad":"` + strings.Repeat("x", 4<<20) + `"}`
	tests := []struct {
		name       string
		change     func(*Config)
		wantStatus int
		wantCode   string
	}{
		{"more than may be held", func(c *Config) { c.MaxBufferedBytes = 1 << 20 }, 503, "overloaded"},
		{"longer than an answer may be", func(c *Config) { c.MaxAnswerBytes = 1 << 20 }, 502, "prefill_answer_too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", reply(200, long), hang, tt.change)

			got := f.post(t, "/v1/chat/completions", chatRequest)

			if got.status != tt.wantStatus || got.header.Get("X-Smg-Error-Code") != tt.wantCode {
				t.Errorf("answer = %d %s, want %d %s", got.status, got.body, tt.wantStatus, tt.wantCode)
			}
			if n := f.legOutcome(t, "prefill", "failed"); n != 0 {
				t.Errorf("prefill legs that failed = %v, want 0", n)
			}
		})
	}
}

// TestOddStreams is about streams that are unlike those of today's engines.
func TestOddStreams(t *testing.T) {
	bigError := `data: {"error":{"message":"` + strings.Repeat("x", 70<<10) + `","code":500}}` + "\n\n"
	named := "id: 7\ndata: [DONE]\n\n"
	tests := []struct {
		name, body string
		decode     http.HandlerFunc
		wantStatus int
		wantBody   string // exact, if the status is 200
	}{
		{"a first error that is long", streamRequest, events(bigError, doneEvent), 500, ""},
		{"an end with a name", streamRequest, events(tokenEvent(1), named), 200, tokenEvent(1) + named},
		{"a stream that was not asked for", chatRequest, events(tokenEvent(1), doneEvent), 502, ""},
		{"JSON where a stream was due", streamRequest, reply(200, chatAnswer), 502, ""},
		{"JSON that is no object", chatRequest, reply(200, `"OK"`), 502, ""},
		{"a media type in capitals", streamRequest, then(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "Text/Event-Stream")
			io.WriteString(w, tokenEvent(1)+doneEvent)
		}), 200, tokenEvent(1) + doneEvent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", reply(200, chatAnswer), tt.decode)

			got := f.post(t, "/v1/chat/completions", tt.body)

			if got.status != tt.wantStatus || tt.wantStatus == 200 && got.body != tt.wantBody {
				t.Errorf("answer = %d %.200q, want %d %.200q", got.status, got.body, tt.wantStatus, tt.wantBody)
			}
		})
	}
}
