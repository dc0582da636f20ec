package router

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"pdrouter/record"
)

// TestHandOffsAreCounted is about what became of each attempt's hand-off.
func TestHandOffsAreCounted(t *testing.T) {
	stream := events(roleEvent, tokenEvent(1), tokenEvent(2), finishEvent, doneEvent)
	ready := reply(200, `{"choices":[],`+handOff+`}`)
	abort := `data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}` + "\n\n"
	tests := []struct {
		name, dialect   string
		prefill, decode http.HandlerFunc
		request, want   string
	}{
		{"a stream", "sglang", reply(200, chatAnswer), stream, streamRequest, "done"},
		{"an answer in JSON", "sglang", reply(200, chatAnswer), reply(200, chatAnswer), chatRequest, "done"},
		{"a stream, prefill first", "vllm-nixl", ready, stream, streamRequest, "done"},
		{"a stream that breaks off after a token", "vllm-nixl", ready, then(events(tokenEvent(1)), reset), streamRequest, "done"},
		{"decode breaks off before a token", "sglang", reply(200, chatAnswer), then(events(roleEvent), reset), streamRequest, "failed"},
		{"decode gives up before a token", "sglang", reply(200, chatAnswer), events(errorEvent, doneEvent), streamRequest, "failed"},
		{"decode gives up as if it were done", "sglang", reply(200, chatAnswer), events(abort + doneEvent), streamRequest, "failed"},
		{"prefill fails", "vllm-nixl", reply(500, "{}"), stream, streamRequest, "failed"},
		{"prefill fails behind decode's back", "sglang", slow(reply(500, "{}")), events(tokenEvent(1), finishEvent, doneEvent), streamRequest, "failed"},
		{"prefill gives nothing to hand over", "vllm-nixl", reply(200, chatAnswer), stream, streamRequest, "missing"},
		{"prefill refuses the request", "sglang", reply(400, `{"error":{"message":"no"}}`), hang, streamRequest, ""},
		{"prefill has too much to do", "vllm-nixl", reply(503, "{}"), hang, streamRequest, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, tt.dialect, tt.prefill, tt.decode)
			f.post(t, "/v1/chat/completions", tt.request)
			f.lastLog(t, 1)
			for _, end := range []string{"done", "missing", "failed", "left"} {
				want := 0.0
				if end == tt.want {
					want = 1
				}
				if n := f.value(t, "pdrouter_handoffs_total", map[string]string{"dialect": tt.dialect, "outcome": end}); n != want {
					t.Errorf("%v hand-offs are %s, want %v", n, end, want)
				}
			}
		})
	}
}

// slow answers a little later.
func slow(script http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pause(r, 100*time.Millisecond)
		script(w, r)
	}
}

// pause waits for d, or until r is over.
func pause(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

func TestHandOffOfAClientThatLeaves(t *testing.T) {
	f := newFleet(t, "vllm-nixl", reply(200, `{"choices":[],`+handOff+`}`), hang)
	conn := f.dial(t, "/v1/chat/completions", streamRequest)
	wait(t, "decode's leg", func() bool { return len(f.decode.got()) == 1 })
	conn.Close()
	f.lastLog(t, 1)
	if n := f.value(t, "pdrouter_handoffs_total", map[string]string{"outcome": "left"}); n != 1 {
		t.Errorf("hand-offs that were left = %v, want 1", n)
	}
	if n := f.value(t, "pdrouter_client_departures_total", map[string]string{"phase": "hand-off"}); n != 1 {
		t.Errorf("departures in the hand-off = %v, want 1", n)
	}
}

// TestEveryPhaseCanBeLeft: metrics knows the phases of package record.
func TestEveryPhaseCanBeLeft(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, family := range families {
		if family.GetName() == "pdrouter_client_departures_total" {
			for _, m := range family.GetMetric() {
				known[m.GetLabel()[0].GetValue()] = true
			}
		}
	}
	for p := range record.Phase(record.Phases) {
		if !known[p.String()] {
			t.Errorf("there is no series for phase %v", p)
		}
	}
	if len(known) != record.Phases {
		t.Errorf("series for %v, want those of %d phases", known, record.Phases)
	}
}

// TestTimesOfAStream compares the histograms with what the engines did.
func TestTimesOfAStream(t *testing.T) {
	const prefills, first, gap = 60 * time.Millisecond, 80 * time.Millisecond, 30 * time.Millisecond
	tokens := func(w http.ResponseWriter, r *http.Request) {
		pause(r, first)
		events(roleEvent, tokenEvent(0))(w, r)
		for i := range 4 {
			pause(r, gap)
			io.WriteString(w, tokenEvent(i+1))
			w.(http.Flusher).Flush()
		}
		pause(r, gap) // so that the end is read by itself
	}
	prefill := func(w http.ResponseWriter, r *http.Request) {
		pause(r, prefills)
		reply(200, `{"choices":[],`+handOff+`}`)(w, r)
	}
	for _, end := range []http.HandlerFunc{events(finishEvent + doneEvent), reset} { // what dies is timed as well
		f := newFleet(t, "vllm-nixl", prefill, then(tokens, end))
		whole := f.post(t, "/v1/chat/completions", streamRequest).took
		f.lastLog(t, 1)
		for name, want := range map[string]struct {
			n   uint64
			sum time.Duration
		}{
			"pdrouter_ttft_seconds":         {1, prefills + first},
			"pdrouter_prefill_seconds":      {1, prefills},
			"pdrouter_handoff_wait_seconds": {1, first},
			"pdrouter_inter_token_seconds":  {4, 4 * gap},
			"pdrouter_decode_seconds":       {1, 4 * gap},
		} {
			n, sum := f.histogram(t, name)
			if n != want.n || sum < want.sum*6/10 || sum > max(want.sum+want.sum/2+40*time.Millisecond, whole*6/10) {
				t.Errorf("%s: %d of %v in all, want %d of about %v", name, n, sum, want.n, want.sum)
			}
		}
	}
}

// TestTTFTIsTheClients: a token that is held for prefill's verdict has not come
// for the client, and decode does not wait for what is there already.
func TestTTFTIsTheClients(t *testing.T) {
	f := newFleet(t, "sglang", slow(reply(200, chatAnswer)), events(tokenEvent(1), finishEvent, doneEvent))
	f.post(t, "/v1/chat/completions", streamRequest)
	if ttft := f.lastLog(t, 1).ContextMap()["ttft"]; ttft.(time.Duration) < 100*time.Millisecond {
		t.Errorf("the log says that the first token came after %v", ttft)
	}
	if n, sum := f.histogram(t, "pdrouter_ttft_seconds"); n != 1 || sum < 100*time.Millisecond {
		t.Errorf("%d first tokens after %v", n, sum)
	}
	if n, sum := f.histogram(t, "pdrouter_handoff_wait_seconds"); n != 1 || sum != 0 {
		t.Errorf("%d hand-offs were waited for, for %v", n, sum)
	}
}

// TestTTFTOfWhatIsTooLongToBeHeld: the gate opens before anything commits.
func TestTTFTOfWhatIsTooLongToBeHeld(t *testing.T) {
	var quiet []string
	for range 5 {
		quiet = append(quiet, fmt.Sprintf(": %0*d\n\n", maxHold/4, 0))
	}
	f := newFleet(t, "sglang", reply(200, chatAnswer), then(events(quiet...), func(_ http.ResponseWriter, r *http.Request) {
		pause(r, 50*time.Millisecond)
	}, events(tokenEvent(1), finishEvent, doneEvent)))
	f.post(t, "/v1/chat/completions", streamRequest)
	f.lastLog(t, 1)
	if n, sum := f.histogram(t, "pdrouter_ttft_seconds"); n != 1 || sum < 50*time.Millisecond {
		t.Errorf("%d first tokens after %v", n, sum)
	}
}

// histogram returns how much a histogram without regard to its labels has counted.
func (f *fleet) histogram(t *testing.T, name string) (n uint64, sum time.Duration) {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				n += m.GetHistogram().GetSampleCount()
				sum += time.Duration(m.GetHistogram().GetSampleSum() * 1e9)
			}
		}
	}
	return n, sum
}

// TestDecodeHearsNothingOfADeadPrefill is about KV that an SGLang decode engine
// keeps for 30 s for a prefill that never comes: each attempt at one that takes
// no connection would cost a prompt's worth.
func TestDecodeHearsNothingOfADeadPrefill(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang, func(c *Config) { c.Retries.Attempts, c.Retries.Backoff = 3, time.Millisecond })
	f.prefill.refuse(t)

	got := f.post(t, "/v1/chat/completions", chatRequest)

	wantError(t, got, 502, "prefill_request_failed")
	if n := f.legOutcome(t, "prefill", "failed"); n != 3 {
		t.Errorf("prefill legs that failed = %v, want 3", n)
	}
	if legs, aborts := f.decode.got(), f.decode.aborted(); len(legs) > 0 || len(aborts) > 0 {
		t.Errorf("decode got %d legs and %d aborts, want none", len(legs), len(aborts))
	}
}
