package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"pdrouter/keys"
	"pdrouter/sim"
)

// TestForwarded is about what one engine answers by itself, in both dialects
// and on engines that ask for a key.
func TestForwarded(t *testing.T) {
	const tokens = `[1684234849,101]`
	tests := []struct {
		dialect, method, path, body string
		status                      int
		want                        string // "": not looked at
	}{
		{sim.SGLang, "POST", "/tokenize", `{"prompt":"abcde"}`, 200, `{"tokens":` + tokens + `,"count":2,"max_model_len":1000}`},
		{sim.SGLang, "POST", "/v1/tokenize", `{"model":"sim-model","prompt":["abcde"]}`, 200, `{"tokens":[` + tokens + `],"count":[2],"max_model_len":1000}`},
		{sim.SGLang, "POST", "/detokenize", `{"tokens":` + tokens + `}`, 200, `{"text":"abcde"}`},
		{sim.SGLang, "POST", "/v1/detokenize", `{"tokens":` + tokens + `}`, 200, `{"text":"abcde"}`},
		{sim.SGLang, "POST", "/v1/detokenize", `{}`, 400, `{"object":"error","message":"Field required: tokens","type":"BadRequestError","param":null,"code":400}`},
		{sim.SGLang, "GET", "/get_model_info", "", 200, ""},
		{sim.SGLang, "GET", "/get_server_info", "", 200, ""},
		{sim.SGLang, "GET", "/health_generate", "", 200, "OK"},
		{sim.VLLMNixl, "POST", "/tokenize", `{"model":"sim-model","prompt":"abcde"}`, 200, `{"count":2,"max_model_len":1000,"tokens":` + tokens + `,"token_strs":null}`},
		{sim.VLLMNixl, "POST", "/v1/tokenize", `{"prompt":"abcde"}`, 200, `{"count":2,"max_model_len":1000,"tokens":` + tokens + `,"token_strs":null}`},
		{sim.VLLMNixl, "POST", "/v1/tokenize", `{"messages":[{"role":"user","content":"abcde"}]}`, 200, ""},
		{sim.VLLMNixl, "POST", "/detokenize", `{"tokens":` + tokens + `}`, 200, `{"prompt":"abcde"}`},
		{sim.VLLMNixl, "POST", "/v1/detokenize", `{"tokens":` + tokens + `}`, 200, `{"prompt":"abcde"}`},
		{sim.VLLMNixl, "POST", "/tokenize", `{"model":"x","prompt":"abcde"}`, 404, ""},
		{sim.VLLMNixl, "GET", "/get_model_info", "", 501, ""},
		{sim.VLLMNixl, "GET", "/get_server_info", "", 501, ""},
		{sim.VLLMNixl, "GET", "/health_generate", "", 200, "OK"},
	}
	const engineKey, clientKey = "engine-s3cret", "client-s3cret"
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		f := newFleet(t, fleetPlan{
			dialect: dialect,
			engine:  func(c *sim.Config) { c.APIKey, c.ContextLength = engineKey, 1000 },
			config:  func(c *Config) { c.Workers.APIKey, c.Router.APIKeys = engineKey, keys.Of(clientKey) },
		})
		for _, tt := range tests {
			if tt.dialect != dialect {
				continue
			}
			t.Run(tt.method+" "+tt.path+" of "+dialect, func(t *testing.T) {
				status, got, err := request(t, tt.method, f.base+tt.path, clientKey, tt.body)
				if err != nil || status != tt.status || tt.want != "" && got != tt.want {
					t.Errorf("answer = %d %s (%v), want %d %s", status, got, err, tt.status, tt.want)
				}
				for _, e := range f.engines() {
					if address := strings.TrimPrefix(e.URL(), "http://"); strings.Contains(got, address) || strings.Contains(got, engineKey) {
						t.Errorf("the client reads of an engine's address or key: %s", got)
					}
				}
			})
		}
		for _, s := range f.registry.Statuses() {
			if s.InFlight != 0 {
				t.Errorf("%s has %d leases at rest", s.Worker.ID, s.InFlight)
			}
		}
	}
}

// TestServerInfoIsCut compares what a client reads of the page of a simulated
// engine, which is a real one's, with the page: of 556 keys some remain, and
// none that names a key, an address or a file.
func TestServerInfoIsCut(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang})
	_, page, err := request(t, http.MethodGet, f.prefill[0].URL()+"/server_info", "", "")
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := request(t, http.MethodGet, f.base+"/get_server_info", "", "")
	if err != nil {
		t.Fatal(err)
	}
	var all, some map[string]any
	if json.Unmarshal([]byte(page), &all) != nil || json.Unmarshal([]byte(got), &some) != nil {
		t.Fatalf("not JSON: %s", got)
	}
	states, _ := some["internal_states"].([]any)
	if len(states) != 1 || some["version"] != all["version"] || some["disaggregation_mode"] != "prefill" || some["max_total_num_tokens"] != all["max_total_num_tokens"] {
		t.Errorf("the page lacks what it is asked for: %s", got)
	}
	state, _ := states[0].(map[string]any)
	if _, ok := state["last_gen_throughput"]; !ok {
		t.Errorf("internal_states[0] = %v, want last_gen_throughput in it", state)
	}
	for _, of := range []map[string]any{some, state} {
		for key := range of {
			for _, word := range []string{"key", "password", "host", "addr", "url", "port", "endpoint", "file", "dir", "args", "config"} {
				for part := range strings.SplitSeq(key, "_") {
					if part == word {
						t.Errorf("the page tells %s = %v", key, of[key])
					}
				}
			}
		}
	}
}
