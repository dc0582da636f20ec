package main

import (
	"net/http"
	"testing"
	"time"

	"pdrouter/sim"
)

// All decode engines have enough to do for five seconds, and say so. Nobody is
// at fault: no breaker opens, least of all prefill's, requests wait or are told
// to come again, and are answered as soon as there is room.
func TestBackpressure(t *testing.T) {
	for _, tt := range []struct{ name, dialect, retryAfter string }{
		{"sglang", sim.SGLang, ""},
		{"sglang that says when", sim.SGLang, "1"},
		{"vllm-nixl", sim.VLLMNixl, ""},
		{"vllm-nixl that says when", sim.VLLMNixl, "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetPlan{dialect: tt.dialect, engine: func(c *sim.Config) { c.DecodePerToken = 2 * time.Millisecond }})
			c := newCrowd(t, f.base, 16, func(i int) step { return completion(t, i, prompt(i%50, 1500), 5) })
			whole := func(a answered) bool { return a.outcome == wholeAnswer }
			if !eventually(func() bool { return c.seen(whole) > 50 }) {
				t.Fatal("requests do not flow at first")
			}
			busy := sim.Fault{Kind: sim.FaultStatus, Status: http.StatusTooManyRequests, Body: `{"error":{"message":"busy"}}`}
			if tt.retryAfter != "" {
				busy.Header = http.Header{"Retry-After": {tt.retryAfter}}
			}
			for _, e := range f.decode {
				e.Fail(busy)
			}
			<-time.NewTimer(5 * time.Second).C
			for _, e := range f.decode {
				e.ClearFaults()
			}
			recovered := time.Now()
			again := func(a answered) bool { return whole(a) && a.ended.After(recovered) }
			if !eventually(func() bool { return c.seen(again) > 0 }) {
				t.Error("requests do not flow again")
			}
			took := time.Since(recovered)
			if !eventually(func() bool { return c.seen(again) > 50 }) {
				t.Error("few requests flow again")
			}
			all := c.disperse()
			t.Logf("flowing again after %v; %v", took.Round(time.Millisecond), outcomesOf(all))

			// The longest pause that a bar has is a second.
			if took > 1200*time.Millisecond {
				t.Errorf("the first answer came %v after there was room, want one second", took)
			}
			for _, a := range all {
				if a.status != 200 && a.status != 429 && a.status != 503 {
					t.Errorf("answer = %v, want 200, 429 or 503", a.reply)
				}
				if a.status != 200 && a.retryAfter == "" {
					t.Errorf("%d without Retry-After: %s", a.status, a.body)
				}
			}
			f.scraped(t).wantNoBreakers(t)
		})
	}
}
