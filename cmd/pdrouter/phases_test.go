package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"

	"pdrouter/sim"
)

// toldFleet is a fleet whose engines take the time that the tests know.
func toldFleet(t *testing.T, dialect string, perPrompt, perToken time.Duration) *fleet {
	t.Helper()
	f := newFleet(t, fleetPlan{dialect: dialect, engine: func(c *sim.Config) {
		c.PrefillPerToken, c.DecodePerToken = perPrompt, perToken
	}})
	if !eventually(func() bool { return scrape(t, f.scrape.Addr().String()).has("pdrouter_ttft_seconds") }) {
		t.Fatal("the engines are not known")
	}
	return f
}

// line returns the access log's line of the nth request.
func (f *fleet) line(t *testing.T, n int) (observer.LoggedEntry, map[string]any) {
	t.Helper()
	var lines []observer.LoggedEntry
	if !eventually(func() bool {
		lines = nil
		for _, e := range f.logs.All() {
			if _, ok := e.ContextMap()["request_id"]; ok {
				lines = append(lines, e)
			}
		}
		return len(lines) >= n
	}) {
		t.Fatalf("the access log has %d lines, want %d", len(lines), n)
	}
	return lines[n-1], lines[n-1].ContextMap()
}

// TestTimesAreThoseOfTheEngines: what histograms and the log say of a stream is
// what the engines were told to take.
func TestTimesAreThoseOfTheEngines(t *testing.T) {
	const perPrompt, perToken, answer = time.Millisecond, 25 * time.Millisecond, 12
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := toldFleet(t, dialect, perPrompt, perToken)
			body := jsonOf(t, map[string]any{
				"model": "sim-model", "stream": true, "stream_options": map[string]any{"include_usage": true}, "max_tokens": answer, "ignore_eos": true, "prompt": prompt(1, 1200),
			})
			if status, _ := post(t, newClient(t), f.base+"/v1/completions", body); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
			_, line := f.line(t, 1)
			tokens, _ := line["prompt_tokens"].(int64)
			prefill := time.Duration(tokens) * perPrompt
			phases, _ := line["phases"].(map[string]any)
			p := scrape(t, f.scrape.Addr().String())
			mean := func(family string) time.Duration {
				return time.Duration(1e9 * p.sum(family+"_sum") / p.sum(family+"_count"))
			}
			for _, tt := range []struct {
				what      string
				got, want time.Duration
			}{
				{"TTFT", mean("pdrouter_ttft_seconds"), prefill},
				{"TTFT in the log", line["ttft"].(time.Duration), prefill},
				{"prefill", mean("pdrouter_prefill_seconds"), prefill},
				{"prefill in the log", phases["prefill"].(time.Duration), prefill},
				{"inter-token time", mean("pdrouter_inter_token_seconds"), perToken},
				{"ITL in the log", line["itl"].(time.Duration), perToken},
				{"decode", mean("pdrouter_decode_seconds"), (answer - 1) * perToken},
				{"relay in the log", phases["relay"].(time.Duration), (answer - 1) * perToken},
			} {
				// A router that sees the first token late sees the others after less time.
				if slack := 50*time.Millisecond + tt.want/2; tt.got < tt.want*6/10 || tt.got > tt.want+slack {
					t.Errorf("%s is %v, want about %v", tt.what, tt.got, tt.want)
				}
			}
			if tokens == 0 || line["answer_tokens"] != int64(answer) || line["attempts"] != int64(1) || line["stream"] != true {
				t.Errorf("the line is %v", line)
			}
			if n := p.sum("pdrouter_handoffs_total", `outcome="done"`, fmt.Sprintf("dialect=%q", dialect)); n != 1 || p.sum("pdrouter_handoffs_total") != 1 {
				t.Errorf("%v hand-offs are done, want 1", n)
			}
		})
	}
}

// TestLogOfJSONAndOfRefusals: the phases that there were, and no others.
func TestLogOfJSONAndOfRefusals(t *testing.T) {
	f := toldFleet(t, sim.VLLMNixl, 0, time.Millisecond)
	client := newClient(t)
	post(t, client, f.base+"/v1/completions", `{"model":"sim-model","prompt":"one two three","max_tokens":8}`)
	entry, line := f.line(t, 1)
	phases, _ := line["phases"].(map[string]any)
	if entry.Message != "request" || phases["decode"] == nil || phases["relay"] == nil || phases["hand-off"] != nil || line["ttft"] != nil {
		t.Errorf("the line of an answer in JSON is %q %v", entry.Message, line)
	}
	post(t, client, f.base+"/v1/completions", "{")
	entry, line = f.line(t, 2)
	if entry.Message != "request failed" || line["code"] != "json_parse_error" || line["phases"] != nil || line["model"] != nil {
		t.Errorf("the line of a refusal is %q %v", entry.Message, line)
	}
}

// TestNoSecretIsLogged: whatever happens, at any level, neither keys nor prompts
// nor answers stand in the log.
func TestNoSecretIsLogged(t *testing.T) {
	const key, workerKey, secret = "client-key-7f3a", "worker-key-9c1b", "the-patient-has"
	prefill := startEngine(t, sim.SGLang, sim.Prefill, func(c *sim.Config) { c.APIKey = workerKey })
	decode := startEngine(t, sim.SGLang, sim.Decode, func(c *sim.Config) { c.APIKey = workerKey })
	p := startServe(t, append(workerFlags(prefill, decode), "--log-level", "debug", "--api-key", key, "--worker-api-key", workerKey, "--retry-max-retries", "2")...)
	client := newClient(t)
	ask := func(path, bearer, body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+bearer)
		req.Header.Set("X-Request-Id", "r-1")
		resp, err := client.Do(req)
		if err != nil {
			return // some answers are cut
		}
		resp.Body.Close()
	}
	good := jsonOf(t, map[string]any{"model": "sim-model", "stream": true, "max_tokens": 4, "user": secret, "messages": []any{map[string]any{"role": "user", "content": secret}}})
	if !eventually(func() bool {
		resp, err := client.Get(p.base + "/readiness")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}) {
		t.Fatal("not ready")
	}
	ask("/v1/chat/completions", key, good)
	ask("/v1/chat/completions", secret, good)
	ask("/v1/chat/completions?key="+secret, key, good[:len(good)-1])
	ask("/v1/chat/completions", key, strings.Replace(good, `"messages"`, `"`+secret+`":1,"messages"`, 1))
	ask("/v1/completions", key, jsonOf(t, map[string]any{"model": secret, "prompt": secret}))
	ask("/v1/completions", key, `{"model":"sim-model","prompt":{"`+secret+`":"`+secret+`"}}`)
	for _, e := range []*sim.Engine{prefill, decode} {
		for _, fault := range []sim.Fault{
			{Kind: sim.FaultStatus, Status: 400, Body: `{"error":{"message":"bad prompt: ` + secret + `"}}`},
			{Kind: sim.FaultStatus, Status: 422, Body: secret},
			{Kind: sim.FaultReset},
		} {
			e.Fail(fault)
			ask("/v1/chat/completions", key, good)
			e.ClearFaults()
		}
	}
	p.terminate(t)
	p.wantExit(t, 10*time.Second)
	log := p.log()
	for _, s := range []string{key, workerKey, secret} {
		for line := range strings.Lines(log) {
			if strings.Contains(line, s) {
				t.Errorf("%q stands in the log: %s", s, line)
			}
		}
	}
	if n := strings.Count(log, `"request_id":"r-1"`); n < 10 {
		t.Errorf("the log has %d lines of requests:\n%s", n, log)
	}
}
