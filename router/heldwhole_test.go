package router

import (
	"net/http"
	"testing"
	"time"
)

// A stream that has come to its end, and is held for prefill's verdict when the
// attempt fails, has not been delivered: the client is told why it failed.
func TestFailureWhileAWholeStreamIsHeld(t *testing.T) {
	const lost = "data: {\"error\":{\"message\":\"lost\",\"type\":\"InternalServerError\",\"code\":500}}\n\n"
	aWhile := func(http.ResponseWriter, *http.Request) { // so that the two parts are read one by one
		timer := time.NewTimer(50 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
	}
	whole := events(roleEvent, tokenEvent(1), finishEvent, doneEvent)
	for _, tt := range []struct {
		name    string
		decode  http.HandlerFunc
		ended   string           // the outcome of its leg
		prefill http.HandlerFunc // what it does then
		status  int
		code    string
	}{
		{"prefill fails", whole, "ok", reply(500, `{"message":"lost"}`), 500, "prefill_upstream_error"},
		{"the time for the first token is over", whole, "ok", hang, 504, "first_byte_timeout"},
		{"the stream ended with the engine's own error", then(events(roleEvent, tokenEvent(1)), aWhile, events(lost, doneEvent)), "failed", hang, 500, "decode_upstream_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ended := make(chan struct{})
			f := newFleet(t, "sglang", func(w http.ResponseWriter, r *http.Request) {
				<-ended
				tt.prefill(w, r)
			}, tt.decode, func(c *Config) { c.FirstByte = 500 * time.Millisecond })
			answered := make(chan answer, 1)
			go func() { answered <- f.post(t, "/v1/chat/completions", streamRequest) }()
			wait(t, "decode to end", func() bool { return f.legOutcome(t, "decode", tt.ended) == 1 })
			close(ended)
			got := <-answered
			if code := got.header.Get("X-SMG-Error-Code"); got.status != tt.status || code != tt.code {
				t.Errorf("the client is told %d %s, want %d %s", got.status, code, tt.status, tt.code)
			}
			f.wantIdle(t)
		})
	}
}
