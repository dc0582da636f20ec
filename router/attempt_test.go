package router

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pdrouter/transfer"
	"pdrouter/workers"
)

const handOff = `"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2]],` +
	`"remote_engine_id":"e","remote_request_id":"r","remote_host":"127.0.0.1","remote_port":5600}`

// TestOneFate is about I3 and I7: the first real failure of either leg ends
// both within a second, decides the status, and only its worker is blamed.
func TestOneFate(t *testing.T) {
	const refusal = `{"object":"error","message":"too long: 5000","type":"BadRequestError","param":null,"code":400}`
	tests := []struct {
		name            string
		prefill, decode http.HandlerFunc
		wantStatus      int
		wantCode        string
		wantBody        string // a part of it
		wantPrefill     string // the outcome of its leg; empty: either leg may come first
		wantDecode      string
	}{
		{"both serve", reply(200, chatAnswer), reply(200, chatAnswer), 200, "", chatAnswer, "ok", "ok"},
		{"prefill finds the prompt too long while decode is silent (BUG-001)", reply(400, refusal), hang, 400, "prefill_upstream_error", refusal, "ok", "canceled"},
		{"prefill fails while decode is silent (BUG-002)", reply(500, `{"message":"room 7"}`), hang, 500, "prefill_upstream_error", "prefill engine failed", "failed", "canceled"},
		{"prefill is overloaded", reply(503, ""), hang, 503, "prefill_upstream_error", "takes no request", "ok", "canceled"},
		{"prefill resets the connection", reset, hang, 502, "prefill_request_failed", "broke off", "failed", "canceled"},
		{"prefill reports an error in a 200", reply(200, `{"error":{"message":"x","code":500}}`), hang, 500, "prefill_upstream_error", "prefill engine failed", "failed", "canceled"},
		{"prefill answers half a JSON object", reply(200, `{"id":`), hang, 502, "prefill_invalid_answer", "makes no sense", "failed", "canceled"},
		{"decode fails while prefill waits for it", hang, reply(500, "{}"), 500, "decode_upstream_error", "decode engine failed", "canceled", "failed"},
		{"decode refuses the request", hang, reply(422, refusal), 422, "decode_upstream_error", refusal, "canceled", "ok"},
		{"decode resets the connection (BUG-057)", reply(200, chatAnswer), reset, 502, "decode_request_failed", "broke off", "", "failed"},
		{"decode answers garbage", reply(200, chatAnswer), raw("\x16\x03\x01garbage\r\n\r\n"), 502, "decode_request_failed", "", "", "failed"},
		{"decode answers half a JSON object of the right length", reply(200, chatAnswer), reply(200, chatAnswer[:40]), 502, "decode_invalid_answer", "makes no sense", "", "failed"},
		{"decode's answer is shorter than its length", reply(200, chatAnswer), raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n" + chatAnswer), 502, "decode_request_failed", "broke off", "", "failed"},
		{"decode answers a redirect", reply(200, chatAnswer), reply(302, ""), 502, "decode_upstream_error", "makes no sense", "", "failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", tt.prefill, tt.decode)

			got := f.post(t, "/v1/chat/completions", chatRequest)

			if got.status != tt.wantStatus || !strings.Contains(got.body, tt.wantBody) {
				t.Errorf("answer = %d %s, want %d with %s", got.status, got.body, tt.wantStatus, tt.wantBody)
			}
			if code := got.header.Get("X-Smg-Error-Code"); code != tt.wantCode {
				t.Errorf("code = %q, want %q", code, tt.wantCode)
			}
			if got.took > time.Second {
				t.Errorf("took %v, want at most 1s", got.took)
			}
			for role, want := range map[string]string{"prefill": tt.wantPrefill, "decode": tt.wantDecode} {
				if n := f.legOutcome(t, role, want); want != "" && n != 1 {
					t.Errorf("%s legs that ended %s = %v, want 1", role, want, n)
				}
			}
			if strings.Contains(got.body, "room 7") || strings.Contains(got.body, "127.0.0.1") {
				t.Errorf("the client reads of the inside: %s", got.body)
			}
		})
	}
}

// TestStreamEnds is about I4 and the commit rule. It takes a dialect in which
// prefill's verdict is in before decode begins.
func TestStreamEnds(t *testing.T) {
	good := reply(200, `{"choices":[],`+handOff+`}`)
	tests := []struct {
		name       string
		decode     http.HandlerFunc
		wantStatus int
		wantBody   string // exact, but for TOLD, which stands for our error event
		wantEnd    string // label of pdrouter_answer_ends_total, if the stream began
	}{
		{"a whole stream", events(roleEvent, tokenEvent(1), finishEvent, doneEvent), 200, roleEvent + tokenEvent(1) + finishEvent + doneEvent, "complete"},
		{"comments and CRLF", events(": hi\n\n", roleEvent, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\r\n\r\n", doneEvent), 200, ": hi\n\n" + roleEvent + "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\r\n\r\n" + doneEvent, "complete"},
		{"an error as the first event is the true status", events(errorEvent, doneEvent), 500, "", ""},
		{"an error behind comments and a role too", events(": ka\n\n", roleEvent, errorEvent, doneEvent), 500, "", ""},
		{"an engine's 400 inside a 200", events(`data: {"error":{"message":"bad","type":"BadRequestError","code":400}}`+"\n\n", doneEvent), 400, "", ""},
		{"decode dies after two tokens", then(events(tokenEvent(1), tokenEvent(2)), reset), 200, tokenEvent(1) + tokenEvent(2) + "TOLD", "truncated"},
		{"decode dies inside an event (BUG-051)", then(events(tokenEvent(1), `data: {"id":"x","cho`), reset), 200, tokenEvent(1) + "TOLD", "truncated"},
		{"decode ends early without [DONE]", events(tokenEvent(1), finishEvent), 200, tokenEvent(1) + finishEvent + "TOLD", "truncated"},
		{"decode ends before the first token", events(roleEvent), 502, "", ""},
		{"decode dies before the first token", then(events(roleEvent), reset), 502, "", ""},
		{"decode stalls", then(events(tokenEvent(1)), hang), 200, tokenEvent(1) + "TOLD", "truncated"},
		{"text that speaks of errors is text", events(`data: {"choices":[{"delta":{"content":"\"error\": [DONE] abort"}}]}`+"\n\n", doneEvent), 200, `data: {"choices":[{"delta":{"content":"\"error\": [DONE] abort"}}]}` + "\n\n" + doneEvent, "complete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "vllm-nixl", good, tt.decode, func(c *Config) { c.StreamIdle = 200 * time.Millisecond })

			got := f.post(t, "/v1/chat/completions", streamRequest)

			want, told, _ := strings.Cut(tt.wantBody, "TOLD")
			if got.status != tt.wantStatus || !strings.HasPrefix(got.body, want) {
				t.Fatalf("answer = %d %q, want %d %q", got.status, got.body, tt.wantStatus, tt.wantBody)
			}
			rest := strings.TrimPrefix(got.body, want)
			switch {
			case tt.wantStatus != 200:
			case strings.HasSuffix(tt.wantBody, "TOLD"):
				if !strings.HasPrefix(rest, `data: {"error":{"message":"`) || !strings.HasSuffix(rest, "}\n\n") || strings.Contains(rest, "[DONE]") {
					t.Errorf("the stream ends with %q, want one error event and no [DONE]", rest)
				}
			case rest != told:
				t.Errorf("the stream ends with %q, want %q", rest, told)
			}
			if got.err != nil {
				t.Errorf("reading the stream: %v", got.err)
			}
			if tt.wantEnd != "" && f.value(t, "pdrouter_answer_ends_total", map[string]string{"end": tt.wantEnd}) != 1 {
				t.Errorf("no stream was counted as %s", tt.wantEnd)
			}
		})
	}
}

// TestPrefillFirst is about dialects whose decode leg is written from
// prefill's answer.
func TestPrefillFirst(t *testing.T) {
	tests := []struct {
		name       string
		prefill    string
		status     int
		wantStatus int
		wantLegs   int // that decode saw
		wantMissed float64
	}{
		{"decode takes the blocks over", `{"choices":[],` + handOff + `}`, 200, 200, 1, 0},
		{"prefill hands nothing over (BUG-024)", `{"choices":[],"kv_transfer_params":null}`, 200, 200, 1, 1},
		{"a malformed hand-off never reaches decode", `{"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":null}}`, 200, 502, 0, 0},
		{"prefill refuses (BUG-016)", `{"error":{"message":"no","code":400}}`, 400, 400, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "vllm-nixl", reply(tt.status, tt.prefill), reply(200, chatAnswer))

			got := f.post(t, "/v1/chat/completions", chatRequest)

			legs := f.decode.got()
			if got.status != tt.wantStatus || len(legs) != tt.wantLegs {
				t.Fatalf("status = %d with %d decode legs, want %d with %d; body %s", got.status, len(legs), tt.wantStatus, tt.wantLegs, got.body)
			}
			if n := f.value(t, "smg_pd_kv_transfer_failures_total", nil); n != tt.wantMissed {
				t.Errorf("missing hand-offs counted = %v, want %v", n, tt.wantMissed)
			}
			if tt.wantLegs == 1 && tt.wantMissed == 0 && !strings.Contains(legs[0].body, handOff) {
				t.Errorf("decode leg = %s, want prefill's hand-off in it", legs[0].body)
			}
		})
	}
}

// TestClientLeaves is about the client's side of I3: whatever the engines are
// doing, both are told within a second.
func TestClientLeaves(t *testing.T) {
	firstToken := then(events(tokenEvent(1)), hang)
	tests := []struct {
		name            string
		body            string
		prefill, decode http.HandlerFunc
		open            []string // roles whose legs are still open when it leaves
	}{
		{"while both are silent (BUG-054)", streamRequest, hang, hang, []string{"prefill", "decode"}},
		{"while both are silent, no stream (BUG-055)", chatRequest, hang, hang, []string{"prefill", "decode"}},
		{"while decode is silent", streamRequest, reply(200, chatAnswer), hang, []string{"decode"}},
		{"in the middle of the stream", streamRequest, reply(200, chatAnswer), firstToken, []string{"decode"}},
		{"while decode waits for prefill's verdict", streamRequest, hang, firstToken, []string{"prefill", "decode"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", tt.prefill, tt.decode)
			conn := f.dial(t, "/v1/chat/completions", tt.body)
			wait(t, "both legs", func() bool { return len(f.prefill.got()) == 1 && len(f.decode.got()) == 1 })
			if tt.open[0] == "decode" {
				wait(t, "prefill's verdict", func() bool { return f.legOutcome(t, "prefill", "ok") == 1 })
			}
			left := time.Now()
			conn.Close()

			for _, role := range tt.open {
				e := map[string]*engine{"prefill": f.prefill, "decode": f.decode}[role]
				select {
				case <-e.closed:
				case <-time.After(5 * time.Second):
					t.Fatalf("the %s leg was not closed", role)
				}
				wait(t, role+" told by /abort_request", func() bool { return len(e.aborted()) == 1 })
				if n := f.legOutcome(t, role, "canceled"); n != 1 {
					t.Errorf("%s legs that ended canceled = %v, want 1", role, n)
				}
			}
			if d := time.Since(left); d > time.Second {
				t.Errorf("took %v, want at most 1s", d)
			}
			wait(t, "the departure to be counted", func() bool { return f.value(t, "pdrouter_client_departures_total", nil) == 1 })
		})
	}
}

// TestVerdictHoldsTheStream is about the commit rule in a concurrent dialect.
func TestVerdictHoldsTheStream(t *testing.T) {
	decoded := make(chan struct{}, 1)
	verdict := make(chan int)
	prefill := func(w http.ResponseWriter, r *http.Request) {
		reply(<-verdict, chatAnswer)(w, r)
	}
	decode := then(events(roleEvent, tokenEvent(1)), func(http.ResponseWriter, *http.Request) { decoded <- struct{}{} }, hang)
	for _, status := range []int{200, 500} {
		f := newFleet(t, "sglang", prefill, decode)
		conn := f.dial(t, "/v1/chat/completions", streamRequest)
		<-decoded
		conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, _ := conn.Read(make([]byte, 1)); n != 0 {
			t.Error("the client read a byte before prefill's verdict")
		}
		verdict <- status
		conn.SetReadDeadline(time.Now().Add(time.Second))
		head := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, head); err != nil || string(head) != fmt.Sprintf("HTTP/1.1 %d", status) {
			t.Errorf("after a verdict of %d the client reads %q (%v)", status, head, err)
		}
		conn.Close()
	}
}

// TestLateVerdict is about a prefill engine that says nothing for too long: the
// client waits for it once, and not much.
func TestLateVerdict(t *testing.T) {
	tests := []struct {
		name, body string
		decode     http.HandlerFunc
		want       string
	}{
		{"a stream", streamRequest, events(tokenEvent(1), finishEvent, doneEvent), tokenEvent(1) + finishEvent + doneEvent},
		{"a JSON answer", chatRequest, reply(200, chatAnswer), chatAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "sglang", hang, tt.decode)

			got := f.post(t, "/v1/chat/completions", tt.body)

			if got.status != 200 || got.body != tt.want {
				t.Errorf("answer = %d %q, want 200 %q", got.status, got.body, tt.want)
			}
			if n := f.value(t, "pdrouter_late_verdicts_total", nil); n != 1 {
				t.Errorf("late verdicts = %v, want 1", n)
			}
			if got.took < maxWait || got.took > 2*maxWait-maxWait/4 {
				t.Errorf("took %v, want about %v", got.took, maxWait)
			}
		})
	}
}

// TestEngineErrorAfterCommit is about an engine's own error in a stream that
// the client reads already: it is relayed as it is, and counted.
func TestEngineErrorAfterCommit(t *testing.T) {
	read := make(chan struct{})
	decode := then(events(tokenEvent(1)), func(http.ResponseWriter, *http.Request) { <-read }, events(errorEvent, doneEvent))
	f := newFleet(t, "sglang", reply(200, chatAnswer), decode)
	conn := f.dial(t, "/v1/chat/completions", streamRequest)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, len(tokenEvent(1)))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	close(read)

	rest, err := io.ReadAll(resp.Body)

	if want := errorEvent + doneEvent; string(rest) != want || err != nil {
		t.Errorf("the stream goes on with %q (%v), want %q", rest, err, want)
	}
	wait(t, "the end to be counted", func() bool {
		return f.value(t, "pdrouter_answer_ends_total", map[string]string{"end": "engine_error"}) == 1
	})
	if n := f.legOutcome(t, "decode", "failed"); n != 1 {
		t.Errorf("decode legs that failed = %v, want 1", n)
	}
}

// TestAbortedAnswer is about BUG-034: an answer that its engine aborted is
// relayed as it is, and no success.
func TestAbortedAnswer(t *testing.T) {
	aborted := strings.Replace(chatAnswer, `"stop"`, `"abort"`, 1)
	f := newFleet(t, "sglang", reply(200, chatAnswer), reply(200, aborted))

	got := f.post(t, "/v1/chat/completions", chatRequest)

	if got.status != 200 || got.body != aborted {
		t.Errorf("answer = %d %s, want 200 %s", got.status, got.body, aborted)
	}
	if n := f.value(t, "pdrouter_answer_ends_total", map[string]string{"end": "engine_abort"}); n != 1 {
		t.Errorf("aborted answers counted = %v, want 1", n)
	}
}

// TestUntakenHandOff is about step 8 of a request's life: blocks that prefill
// holds for a decode engine that never got the leg are released, and counted
// when that cannot be done.
func TestUntakenHandOff(t *testing.T) {
	f := newFleet(t, "vllm-nixl", reply(200, `{"choices":[],`+handOff+`}`), hang)
	f.decode.Close() // nobody listens there any more

	got := f.post(t, "/v1/chat/completions", chatRequest)

	if got.status != 502 || got.header.Get("X-Smg-Error-Code") != "decode_request_failed" {
		t.Errorf("answer = %d %s, want 502 decode_request_failed", got.status, got.body)
	}
	wait(t, "the orphan to be counted", func() bool { return f.value(t, "pdrouter_orphaned_handoffs_total", nil) == 1 })
}

// TestReleaseLeg is about the same when decode can be reached: the client left
// after prefill had answered and before decode was asked.
func TestReleaseLeg(t *testing.T) {
	f := newFleet(t, "vllm-nixl", hang, reply(200, chatAnswer))
	req, err := transfer.Parse(transfer.Chat, []byte(streamRequest))
	if err != nil {
		t.Fatal(err)
	}
	var pair workers.Pair
	if err := f.registry.Lease(t.Context(), workers.Need{Model: "m"}, &pair); err != nil {
		t.Fatal(err)
	}
	a := attempt{
		h: f.handler, call: &call{cfg: f.handler.standing.Load(), r: httptest.NewRequest(http.MethodPost, "/", nil)}, req: req,
		dialect: transfer.VLLMNIXL{}, keys: transfer.NewAttempt(req), answer: []byte(`{` + handOff + `}`), ctx: t.Context(),
	}
	a.legs[workers.Prefill].lease, a.legs[workers.Decode].lease = &pair.Prefill, &pair.Decode
	pair.Prefill.Done(nil)
	pair.Decode.Done(nil)

	a.settle()

	f.handler.Wait()
	legs := f.decode.got()
	if len(legs) != 1 || !strings.Contains(legs[0].body, handOff) || !strings.Contains(legs[0].body, `"max_tokens":1`) || strings.Contains(legs[0].body, `"stream":true`) {
		t.Errorf("decode got %+v, want one leg with the hand-off, one token and no stream", legs)
	}
	if n := f.value(t, "pdrouter_orphaned_handoffs_total", nil); n != 0 {
		t.Errorf("orphans = %v, want 0", n)
	}
}

// TestRefusedHandOff is about BUG-023: decode refuses what prefill has made
// ready. The client gets decode's words, and prefill's blocks are released.
func TestRefusedHandOff(t *testing.T) {
	const refusal = `{"error":{"message":"max_tokens=5000 is too many","type":"BadRequestError","param":"max_tokens","code":400}}`
	f := newFleet(t, "vllm-nixl", reply(200, `{"choices":[],`+handOff+`}`), reply(400, refusal))

	got := f.post(t, "/v1/chat/completions", chatRequest)

	if got.status != 400 || got.body != refusal {
		t.Errorf("answer = %d %s, want 400 %s", got.status, got.body, refusal)
	}
	wait(t, "the release leg", func() bool { return len(f.decode.got()) == 2 })
	wait(t, "the orphan to be counted", func() bool { return f.value(t, "pdrouter_orphaned_handoffs_total", nil) == 1 })
}
