package router

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/workers"
)

// quickly makes all retries follow one another at once.
func quickly(c *Config) {
	c.Retries = DefaultConfig().Retries
	c.Retries.Backoff, c.Retries.MaxBackoff = time.Millisecond, time.Millisecond
}

// first runs one script for the first n requests and another after that.
func first(n int, script, after http.HandlerFunc) http.HandlerFunc {
	turn := make(chan struct{}, n)
	for range n {
		turn <- struct{}{}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-turn:
			script(w, r)
		default:
			after(w, r)
		}
	}
}

// TestRetry is about one engine of four that fails: the request is answered by
// the others, who failed is not asked again, and hand-off keys are used once.
func TestRetry(t *testing.T) {
	const handShake = `{"error":{"message":"Decode transfer failed for request rank=0 with exception KVTransferError(bootstrap_room=1): Aborted"}}`
	tests := []struct {
		name     string
		role     workers.Role
		script   http.HandlerFunc
		dialects []string
		blame    string // what the failed leg says
	}{
		{"a prefill that answers 500", workers.Prefill, reply(500, `{"error":{"message":"out of memory"}}`), both, "failed"},
		{"a decode that says why it answers 500", workers.Decode, reply(500, `{"error":{"message":"out of memory"}}`), both, "failed"},
		{"a decode that does not say why", workers.Decode, reply(500, `{"error":{"message":"Internal server error"}}`), both, "handoff"},
		{"a decode that got no KV", workers.Decode, reply(500, handShake), both, "handoff"},
		{"a prefill that is busy", workers.Prefill, reply(429, `{"error":{"message":"busy"}}`), both, "ok"},
		{"a decode that takes nothing", workers.Decode, reply(503, `{}`), both, "ok"},
		{"a prefill that resets", workers.Prefill, reset, both, "failed"},
		{"a decode that resets", workers.Decode, reset, both, "failed"},
		{"a prefill that talks nonsense", workers.Prefill, reply(200, `{"choi`), both, "failed"},
		{"a decode that talks nonsense", workers.Decode, reply(200, `{"choi`), both, "failed"},
		{"a decode whose stream begins with an error", workers.Decode, events("data: " + handShake + "\n\n"), both, "handoff"},
		{"a prefill without a sound hand-off", workers.Prefill, reply(200, `{"choices":[],"kv_transfer_params":{"remote_block_ids":null}}`), both[1:], "failed"},
	}
	for _, tt := range tests {
		for _, dialect := range tt.dialects {
			for _, body := range []string{chatRequest, streamRequest} {
				t.Run(fmt.Sprintf("%s/%s/%t", tt.name, dialect, body == streamRequest), func(t *testing.T) {
					f := newFailing(t, dialect, tt.role, tt.script)
					if strings.Contains(tt.name, "stream") && body == chatRequest {
						t.Skip("a JSON answer has no events")
					}

					got := f.post(t, "/v1/chat/completions", body)

					if testing.Verbose() {
						for _, l := range f.logs.All() {
							t.Log(l.Message, l.ContextMap())
						}
					}
					if got.status != 200 || !strings.Contains(got.body, "Hello.") {
						t.Fatalf("answer = %d %s, want 200 with the answer of another pair", got.status, got.body)
					}
					f.wantOneRetry(t, tt.role, tt.blame)
				})
			}
		}
	}
}

var both = []string{"sglang", "vllm-nixl"}

// newFailing returns a fleet of two pairs, in which the first worker of a role
// that is asked fails all that it is asked.
func newFailing(t *testing.T, dialect string, role workers.Role, script http.HandlerFunc) *fleet {
	t.Helper()
	prefill := reply(200, `{"choices":[],`+handOff+`}`)
	decode := func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"stream":true`) {
			reply(200, chatAnswer)(w, r)
			return
		}
		events(roleEvent, `data: {"choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":null}]}`+"\n\n", finishEvent, doneEvent)(w, r)
	}
	scripts := [2][]http.HandlerFunc{{prefill, prefill}, {decode, decode}}
	failing := make(chan struct{}, 1)
	failing <- struct{}{}
	for i, good := range scripts[role] {
		chosen := false
		scripts[role][i] = func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-failing:
				chosen = true
			default:
			}
			if chosen {
				script(w, r)
				return
			}
			good(w, r)
		}
	}
	return newLargeFleet(t, dialect, scripts[workers.Prefill], scripts[workers.Decode], quickly)
}

// wantOneRetry checks that two attempts were made, on two workers of the role
// that failed, with keys of their own.
func (f *fleet) wantOneRetry(t *testing.T, role workers.Role, blame string) {
	t.Helper()
	f.handler.Wait()
	wantRetries, wantBlame := 1.0, 1.0
	switch blame {
	case "ok":
		wantBlame = 2 // the other attempt went well
	case "handoff": // the pair is left out, so the next one may have the same decode
		wantRetries = f.legOutcome(t, "decode", "handoff")
		wantBlame = min(wantRetries, 2)
	}
	if n := f.value(t, "smg_worker_retries_total", map[string]string{"worker_type": "decode"}); n != wantRetries {
		t.Errorf("retries = %v, want %v", n, wantRetries)
	}
	if n := f.legOutcome(t, role.String(), blame); n != wantBlame {
		t.Errorf("%s legs that ended as %s = %v, want %v", role, blame, n, wantBlame)
	}
	for _, e := range [][]*engine{f.prefills, f.decodes}[role] {
		legs := e.got()
		if role == workers.Decode {
			legs = slices.DeleteFunc(legs, isRelease)
		}
		if n := float64(len(legs)); n == 0 || n > wantBlame {
			t.Errorf("an engine of the role that failed got %v legs, want 1 (%v if the pair is blamed)", n, wantBlame)
		}
	}
	seen := map[string]bool{}
	for _, e := range f.prefills {
		for _, leg := range e.got() {
			if id := leg.header.Get("X-Request-Id"); seen[id] {
				t.Errorf("id %s was used for two attempts", id)
			} else {
				seen[id] = true
			}
		}
	}
}

// isRelease reports whether a leg only frees the blocks of another one.
func isRelease(r received) bool { return strings.Contains(r.body, `"max_tokens":1`) }

// TestNoRetry is about what no other pair would do better.
func TestNoRetry(t *testing.T) {
	const refusal = `{"error":{"message":"no","type":"BadRequestError","code":400}}`
	tests := []struct {
		name            string
		prefill, decode http.HandlerFunc
		status          int
	}{
		{"a refusal", reply(400, refusal), hang, 400},
		{"a body that is too long for the engine", reply(413, refusal), hang, 413},
		{"an unknown model", reply(404, refusal), hang, 404},
		{"an engine's key", reply(401, refusal), hang, 401},
		{"what an engine does not have", reply(501, refusal), hang, 501},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newLargeFleet(t, "sglang", []http.HandlerFunc{tt.prefill, tt.prefill}, []http.HandlerFunc{tt.decode, tt.decode}, quickly)

			got := f.post(t, "/v1/chat/completions", chatRequest)

			if got.status != tt.status {
				t.Errorf("answer = %d %s, want %d", got.status, got.body, tt.status)
			}
			if n := len(f.prefills[0].got()) + len(f.prefills[1].got()); n != 1 {
				t.Errorf("prefill legs = %d, want 1", n)
			}
		})
	}
}

// TestNoRetryAfterCommit is about I4: decode breaks off when the client has read
// a token.
func TestNoRetryAfterCommit(t *testing.T) {
	read := make(chan struct{})
	await := func(http.ResponseWriter, *http.Request) { <-read }
	dies := then(events(roleEvent, tokenEvent(0)), await, reset)
	f := newLargeFleet(t, "sglang", []http.HandlerFunc{reply(200, chatAnswer)}, []http.HandlerFunc{dies, dies}, quickly)
	conn := bufio.NewReader(f.dial(t, "/v1/chat/completions", streamRequest))
	head := ""
	for !strings.Contains(head, " t0") { // of the token, whose event may still be on its way
		line, err := conn.ReadString('\n')
		if err != nil {
			t.Fatalf("read the first token: %v after %q", err, head)
		}
		head += line
	}
	close(read)

	rest := ""
	for !strings.Contains(rest, `"error"`) {
		line, err := conn.ReadString('\n')
		if rest += line; err != nil || strings.Contains(line, "[DONE]") {
			t.Fatalf("the rest is %q, %v, want an error event and no [DONE]", rest, err)
		}
	}
	if n := len(f.decodes[0].got()) + len(f.decodes[1].got()); n != 1 {
		t.Errorf("decode legs = %d, want 1", n)
	}
}

// TestRetriesExhausted is about a fleet in which nobody is well: the client is
// told the last true status, and how often it was tried.
func TestRetriesExhausted(t *testing.T) {
	sick := reply(500, `{"error":{"message":"no memory at 10.0.0.7:8000"}}`)
	f := newLargeFleet(t, "sglang", []http.HandlerFunc{sick, sick}, []http.HandlerFunc{hang}, quickly)

	got := f.post(t, "/v1/chat/completions", chatRequest)

	if got.status != 500 || !strings.Contains(got.body, "It was tried 5 times.") || strings.Contains(got.body, "10.0.0.7") {
		t.Errorf("answer = %d %s, want 500, five tries and no address", got.status, got.body)
	}
	if n := f.value(t, "smg_worker_retries_exhausted_total", map[string]string{"worker_type": "prefill"}); n != 1 {
		t.Errorf("exhausted = %v, want 1", n)
	}
}

// TestRetryOnTheOnlyWorker: who failed is left out only while another is there.
func TestRetryOnTheOnlyWorker(t *testing.T) {
	f := newLargeFleet(t, "sglang", []http.HandlerFunc{first(2, reply(500, `{}`), reply(200, chatAnswer))}, []http.HandlerFunc{reply(200, chatAnswer)}, quickly)

	if got := f.post(t, "/v1/chat/completions", chatRequest); got.status != 200 {
		t.Errorf("answer = %d %s, want 200 at the third try", got.status, got.body)
	}
}

func TestRetriesWait(t *testing.T) {
	r := Retries{Attempts: 9, Backoff: 50 * time.Millisecond, Multiplier: 2, MaxBackoff: 150 * time.Millisecond}
	for attempts, want := range map[int]time.Duration{1: 50 * time.Millisecond, 2: 100 * time.Millisecond, 3: 150 * time.Millisecond, 8: 150 * time.Millisecond} {
		if got := r.wait(attempts); got != want {
			t.Errorf("wait(%d) = %v, want %v", attempts, got, want)
		}
	}
	r.Jitter = 0.2
	for range 100 {
		if got := r.wait(1); got < 40*time.Millisecond || got > 60*time.Millisecond {
			t.Fatalf("wait(1) = %v with a jitter of 0.2, want 40 to 60 ms", got)
		}
	}
}

// TestBudget: full at the start, then what time and requests bring.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := newBudget()
		for i := range 100 {
			if wait := b.reserve(time.Now()); wait != 0 {
				t.Fatalf("retry %d of a full budget waits %v", i, wait)
			}
		}
		began := time.Now()
		if !b.spend(ctx) || time.Since(began).Round(time.Millisecond) != 333*time.Millisecond {
			t.Errorf("the next one took %v, want a third of a second", time.Since(began))
		}
		for range 3 {
			b.reserve(time.Now())
		}
		if b.spend(ctx) {
			t.Error("a retry was granted that would have waited for more than a second")
		}
		for range 30 {
			b.earn()
		}
		if wait := b.reserve(time.Now()); wait != 0 {
			t.Errorf("after 30 requests a retry waits %v, want none", wait)
		}
		time.Sleep(time.Hour)
		if got := b.left(); got != budgetMost {
			t.Errorf("after an hour %v are left, want %v", got, budgetMost)
		}
	})
}

// TestStaleConnections is about engines that close a kept connection when the
// next request comes: it is made once more, which is no retry, spends nothing,
// and says nothing against anybody.
func TestStaleConnections(t *testing.T) {
	once := func(script http.HandlerFunc) http.HandlerFunc {
		var seen sync.Map
		return func(w http.ResponseWriter, r *http.Request) {
			if _, again := seen.LoadOrStore(r.RemoteAddr, true); !again {
				script(w, r)
				return
			}
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close()
			}
		}
	}
	for _, dialect := range both {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, dialect, once(reply(200, `{"choices":[],`+handOff+`}`)), once(reply(200, chatAnswer)))
			for i := range 4 {
				if got := f.post(t, "/v1/chat/completions", chatRequest); got.status != 200 {
					t.Fatalf("request %d: %d %s, want 200", i, got.status, got.body)
				}
			}
			if n := f.value(t, "smg_worker_retries_total", nil); n != 0 {
				t.Errorf("retries = %v, want none", n)
			}
			if n := f.handler.budget.left(); n != budgetMost {
				t.Errorf("the budget has %v left, want all of %v", n, budgetMost)
			}
			if n := f.legOutcome(t, "prefill", "failed") + f.legOutcome(t, "decode", "failed"); n != 0 {
				t.Errorf("%v legs were blamed, want none", n)
			}
			if legs := len(f.prefill.got()) + len(f.decode.got()); legs <= 8 {
				t.Errorf("the engines got %d legs, want more than 8: no connection went stale", legs)
			}
		})
	}
}
