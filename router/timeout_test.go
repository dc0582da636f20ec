package router

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// comments sends keep-alive comments until the router leaves.
func comments(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		io.WriteString(w, ": keep-alive\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// TestTimeouts is about engines that never come to the point. Who is slow cannot
// be told while prefill is silent, and how long an answer is may be the client's
// wish: neither is blamed on a worker (I7).
func TestTimeouts(t *testing.T) {
	const limit = 150 * time.Millisecond
	tests := []struct {
		name            string
		body            string
		prefill, decode http.HandlerFunc
		wantCode        string
		wantBlame       string // what decode's leg says
	}{
		{"a JSON answer is bounded as a whole", chatRequest, reply(200, chatAnswer), hang, "request_timeout", "canceled"},
		{"and in prefill's part of it", chatRequest, hang, hang, "first_byte_timeout", "handoff"},
		{"a stream is bounded up to its first token", streamRequest, hang, hang, "first_byte_timeout", "handoff"},
		{"comments are no token", streamRequest, reply(200, chatAnswer), comments, "first_byte_timeout", "failed"},
		{"a role is no token", streamRequest, reply(200, chatAnswer), then(events(roleEvent), hang), "first_byte_timeout", "failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", tt.prefill, tt.decode, func(c *Config) { c.FirstByte, c.RequestTimeout = limit, limit+limit/2 })

			got := f.post(t, "/v1/chat/completions", tt.body)

			if got.status != 504 || got.header.Get("X-Smg-Error-Code") != tt.wantCode {
				t.Errorf("answer = %d %s, want 504 %s", got.status, got.body, tt.wantCode)
			}
			if got.took < limit || got.took > 2*limit+time.Second {
				t.Errorf("took %v, want about %v", got.took, limit)
			}
			if f.legOutcome(t, "prefill", "failed") != 0 || f.legOutcome(t, "decode", tt.wantBlame) != 1 {
				t.Errorf("prefill failed %v times, want none; decode %s %v times, want once",
					f.legOutcome(t, "prefill", "failed"), tt.wantBlame, f.legOutcome(t, "decode", tt.wantBlame))
			}
		})
	}
}

// TestStreamsHaveNoTotalBound is about BUG-061: a stream may last as long as it
// says something now and then.
func TestStreamsHaveNoTotalBound(t *testing.T) {
	const limit = 100 * time.Millisecond
	slow := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(limit / 2)
		defer tick.Stop()
		for i := range 8 {
			io.WriteString(w, tokenEvent(i))
			w.(http.Flusher).Flush()
			<-tick.C
		}
		io.WriteString(w, doneEvent)
	}
	f := newFleet(t, "sglang", reply(200, chatAnswer), slow, func(c *Config) {
		c.FirstByte, c.RequestTimeout, c.StreamIdle = 4*limit, limit, 2*limit
	})

	got := f.post(t, "/v1/chat/completions", streamRequest)

	if got.status != 200 || got.body[len(got.body)-len(doneEvent):] != doneEvent {
		t.Errorf("answer = %d, ends with %q, want 200 and [DONE]", got.status, got.body)
	}
}
