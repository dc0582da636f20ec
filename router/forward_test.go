package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pdrouter/exchange"
	"pdrouter/keys"
	"pdrouter/policy"
	"pdrouter/workers"
)

const (
	tokensRequest = "{ \"model\" : \"m\",\n \"prompt\": \"hi\", \"kv_transfer_params\": {\"a\": 1}, \"add_special_tokens\": false }"
	tokensAnswer  = "{ \"tokens\": [1, 2],\"count\":2 ,\"max_model_len\":10}"
	noSuchPath    = `{"detail":"Not Found"}`
)

// TestForward is about requests that one worker serves whole.
func TestForward(t *testing.T) {
	tests := []struct{ dialect, path, want string }{
		{"sglang", "/tokenize", "/v1/tokenize"},
		{"sglang", "/v1/tokenize", "/v1/tokenize"},
		{"sglang", "/detokenize", "/v1/detokenize"},
		{"sglang", "/v1/detokenize", "/v1/detokenize"},
		{"vllm-nixl", "/tokenize", "/tokenize"},
		{"vllm-nixl", "/v1/tokenize", "/tokenize"},
		{"vllm-nixl", "/detokenize", "/detokenize"},
		{"vllm-nixl", "/v1/detokenize", "/detokenize"},
	}
	for _, tt := range tests {
		t.Run(tt.path+" of "+tt.dialect, func(t *testing.T) {
			var f *fleet
			inFlight := make(chan int, 1)
			f = newFleet(t, tt.dialect, func(w http.ResponseWriter, r *http.Request) {
				inFlight <- f.registry.Statuses()[0].InFlight
				w.Header().Set("Server", "uvicorn")
				reply(200, tokensAnswer)(w, r)
			}, hang)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+tt.path, strings.NewReader(tokensRequest))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{"Cookie": "a=b", "X-Request-Id": "mine", "Authorization": "Bearer k", "Traceparent": traceparent} {
				req.Header.Set(name, value)
			}

			got := do(t, req)

			if got.status != 200 || got.body != tokensAnswer || got.header.Get("Server") != "" || got.header.Get("X-Request-Id") != "mine" {
				t.Errorf("answer = %d %v %s, want 200 %s", got.status, got.header, got.body, tokensAnswer)
			}
			if n := <-inFlight; n != 1 {
				t.Errorf("in flight meanwhile = %d, want 1", n)
			}
			legs := f.prefill.got()
			if len(legs) != 1 || len(f.decode.got()) != 0 || legs[0].path != tt.want || legs[0].body != tokensRequest {
				t.Fatalf("engines were sent %+v, want one request to %s of prefill, as it came (I5)", legs, tt.want)
			}
			h := legs[0].header
			if h.Get("Cookie") != "" || h.Get("X-Request-Id") == "mine" || h.Get("Authorization") != "Bearer k" || h.Get("Traceparent") != traceparent {
				t.Errorf("headers that went up = %v (I6)", h)
			}
			entry := f.lastLog(t, 1).ContextMap()
			if entry["prefill"] != "prefill-0" || entry["model"] != "m" || entry["path"] != tt.path {
				t.Errorf("the log says %v", entry)
			}
			if n := f.value(t, "smg_http_requests_total", map[string]string{"path": tt.path}); n != 1 {
				t.Errorf("requests counted under %s = %v, want 1", tt.path, n)
			}
		})
	}
}

// TestForwardFails is about what else engines answer, and clients send.
func TestForwardFails(t *testing.T) {
	const refusal = `{"object":"error","message":"no such token","code":400}`
	limited := func(c *Config) { c.MaxAnswerBytes, c.RequestTimeout, c.MaxBodyBytes = 100, 100*time.Millisecond, 1000 }
	tests := []struct {
		name, body string
		prefill    http.HandlerFunc
		wantStatus int
		wantCode   string // in the envelope; "": the engine's own body is relayed
	}{
		{"the engine refuses", tokensRequest, reply(400, refusal), 400, ""},
		{"the engine does not know the model", tokensRequest, reply(404, refusal), 404, ""},
		{"the engine has no such path", tokensRequest, reply(404, noSuchPath), 501, "not_implemented"},
		{"the engine has another method", tokensRequest, reply(405, `{"detail":"Method Not Allowed"}`), 501, "not_implemented"},
		{"the engine fails", tokensRequest, reply(500, `{"error":{"message":"at 10.1.2.3:4"}}`), 500, "prefill_upstream_error"},
		{"the engine redirects", tokensRequest, reply(307, `{}`), 502, "prefill_upstream_error"},
		{"the engine is not there", tokensRequest, reset, 502, "prefill_request_failed"},
		{"the answer breaks off", tokensRequest, raw("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), 502, "prefill_request_failed"},
		{"the answer is not JSON", tokensRequest, reply(200, "<html>"), 502, "prefill_invalid_answer"},
		{"the answer is too long", tokensRequest, reply(200, `"`+strings.Repeat("x", 5000)+`"`), 502, "prefill_answer_too_large"},
		{"the engine does not answer", tokensRequest, hang, 504, "request_timeout"},
		{"another model", `{"model":"x","prompt":"a"}`, nil, 404, "model_not_found"},
		{"two models", `{"model":"m","model":"x","prompt":"a"}`, nil, 400, "duplicate_key"},
		{"a body that is none", `x`, nil, 400, "json_parse_error"},
		{"a body that is too long", `"` + strings.Repeat("x", 1000) + `"`, nil, 413, "request_too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", tt.prefill, hang, limited)

			got := f.post(t, "/v1/tokenize", tt.body)

			if tt.wantCode != "" {
				wantError(t, got, tt.wantStatus, tt.wantCode)
			} else if got.status != tt.wantStatus || got.body != refusal {
				t.Errorf("answer = %d %s, want %d %s", got.status, got.body, tt.wantStatus, refusal)
			}
			if strings.Contains(got.body, "10.1.2.3") {
				t.Errorf("the client reads an address: %s", got.body)
			}
			if n := len(f.prefill.got()); (tt.prefill == nil) != (n == 0) {
				t.Errorf("prefill was sent %d requests", n)
			}
		})
	}
	t.Run("another content type", func(t *testing.T) {
		f := newServingFleet(t)
		got, _ := f.exchangeRaw(t, "POST /tokenize HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
		wantError(t, got, 415, "unsupported_media_type")
		f.wantUntouched(t)
	})
}

// TestForwardLong: what a long answer takes counts while it is held, and the
// fleet sees that it is given back.
func TestForwardLong(t *testing.T) {
	long := `{"tokens":"` + strings.Repeat("x", 2<<20) + `"}`
	f := newFleet(t, "sglang", reply(200, long), hang)
	if got := f.post(t, "/tokenize", tokensRequest); got.status != 200 || got.body != long {
		t.Errorf("answer = %d of %d bytes, want 200 of %d", got.status, len(got.body), len(long))
	}
	f = newFleet(t, "sglang", reply(200, long), hang, func(c *Config) { c.MaxBufferedBytes = 1 << 20 })
	wantError(t, f.post(t, "/tokenize", tokensRequest), 503, "overloaded")
}

// TestForwardToDecode: without a prefill worker, decode knows the tokens too.
func TestForwardToDecode(t *testing.T) {
	f := newFleet(t, "vllm-nixl", hang, reply(200, tokensAnswer))
	f.registry = readied(t, f, workers.Decode)
	f.handler.registry = f.registry

	if got := f.post(t, "/tokenize", tokensRequest); got.status != 200 || got.body != tokensAnswer {
		t.Errorf("answer = %d %s, want decode's", got.status, got.body)
	}
	if entry := f.lastLog(t, 1).ContextMap(); entry["decode"] != "decode-0" {
		t.Errorf("the log says %v", entry)
	}
	got := f.request(t, "GET", "/get_model_info")
	wantError(t, got, 503, "no_available_workers")
	got = f.request(t, "GET", "/health_generate")
	wantError(t, got, 503, "no_healthy_worker_pair")
}

// TestForwardIsCanceled: a client that leaves ends what is done for it.
func TestForwardIsCanceled(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	for _, head := range []string{"POST /tokenize HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", "GET /get_model_info HTTP/1.1\r\nHost: h\r\n\r\n", "GET /health_generate HTTP/1.1\r\nHost: h\r\n\r\n"} {
		n := len(f.prefill.got())
		conn := f.connect(t)
		io.WriteString(conn, head)
		wait(t, "prefill to be asked", func() bool { return len(f.prefill.got()) > n })
		conn.Close()
		<-f.prefill.closed
		wait(t, "the log", func() bool { return f.logs.Len() == n+1 })
		if entry := f.logs.All()[n]; entry.Message != "client left" {
			t.Errorf("the log says %q %v, want client left", entry.Message, entry.ContextMap())
		}
	}
}

// TestModelInfo is about the page of the first prefill engine.
func TestModelInfo(t *testing.T) {
	const info = `{"model_path": "/models/m", "is_generation":true}`
	at := func(path string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != path {
				reply(404, noSuchPath)(w, r)
				return
			}
			reply(200, info)(w, r)
		}
	}
	for _, path := range []string{"/model_info", "/get_model_info"} {
		f := newFleet(t, "sglang", at(path), hang)
		if got := f.request(t, "GET", "/get_model_info"); got.status != 200 || got.body != info {
			t.Errorf("GET /get_model_info, served at %s = %d %s, want 200 %s", path, got.status, got.body, info)
		}
	}
	f := newFleet(t, "vllm-nixl", hang, hang)
	for _, path := range []string{"/get_model_info", "/get_server_info"} {
		got := f.request(t, "GET", path)
		wantError(t, got, 501, "not_implemented")
		if !strings.Contains(got.body, path) || !strings.Contains(got.body, "vllm-nixl") {
			t.Errorf("answer = %s, want endpoint and dialect named", got.body)
		}
	}
	f.wantUntouched(t)
}

// TestForwardAsksForKeys: of all that is forwarded only the check is open.
func TestForwardAsksForKeys(t *testing.T) {
	f := newServingFleet(t, func(c *Config) { c.APIKeys = keys.Of("k") })
	for _, line := range []string{"POST /tokenize", "POST /v1/detokenize", "GET /get_model_info", "GET /get_server_info"} {
		method, path, _ := strings.Cut(line, " ")
		wantError(t, f.request(t, method, path), 401, "invalid_api_key")
	}
	f.wantUntouched(t)
	if got := f.request(t, "GET", "/health_generate"); got.status != 200 || got.body != "OK" {
		t.Errorf("GET /health_generate without a key = %d %s, want 200", got.status, got.body)
	}
}

// TestHealthGenerate is about the check of a pair.
func TestHealthGenerate(t *testing.T) {
	empty := func(http.ResponseWriter, *http.Request) {}
	tests := []struct {
		name, dialect   string
		prefill, decode http.HandlerFunc
		wantPath        string
		wantCode        string // "": 200
	}{
		{"both pass", "sglang", empty, empty, "/health_generate", ""},
		{"both pass, vLLM", "vllm-nixl", empty, empty, "/health", ""},
		{"prefill is not well", "sglang", reply(503, "10.1.2.3"), empty, "", "health_generate_failed"},
		{"decode is not well", "sglang", empty, reply(500, "10.1.2.3"), "", "health_generate_failed"},
		{"decode is gone", "vllm-nixl", empty, reset, "", "health_generate_failed"},
		{"decode hangs", "vllm-nixl", empty, hang, "", "health_generate_failed"},
		{"the engine has no such path", "vllm-nixl", empty, reply(404, noSuchPath), "", "not_implemented"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, tt.dialect, tt.prefill, tt.decode)
			f.handler.check.limit = 200 * time.Millisecond

			got := f.request(t, "GET", "/health_generate")

			if tt.wantCode != "" {
				wantError(t, got, map[bool]int{true: 501, false: 503}[tt.wantCode == "not_implemented"], tt.wantCode)
				if strings.Contains(got.body, "10.1.2.3") || strings.Contains(got.body, "127.0.0.1") {
					t.Errorf("the client reads an address: %s", got.body)
				}
				return
			}
			if got.status != 200 || got.body != "OK" {
				t.Errorf("answer = %d %s, want 200 OK", got.status, got.body)
			}
			for _, e := range []*engine{f.prefill, f.decode} {
				if legs := e.got(); len(legs) != 1 || legs[0].path != tt.wantPath || legs[0].header.Get("Content-Type") != "" {
					t.Errorf("an engine was sent %+v, want one GET %s", legs, tt.wantPath)
				}
			}
		})
	}
}

// TestHealthGenerateIsShared: many who ask at once cost engines one check, or
// the two that some came in between.
func TestHealthGenerateIsShared(t *testing.T) {
	const n = 50
	open := make(chan struct{})
	var asked atomic.Int32
	f := newFleet(t, "sglang", func(http.ResponseWriter, *http.Request) { asked.Add(1); <-open }, func(http.ResponseWriter, *http.Request) {})
	answers := make(chan string, n)
	for range n {
		conn := f.connect(t)
		io.WriteString(conn, "GET /health_generate HTTP/1.1\r\nHost: h\r\n\r\n")
		go func() {
			b := make([]byte, 12)
			_, err := io.ReadFull(conn, b)
			answers <- fmt.Sprint(string(b), err)
		}()
	}
	wait(t, "all to be there", func() bool { return len(f.handler.Ages()) == n && asked.Load() == 1 })
	close(open)
	for range n {
		if got := <-answers; got != "HTTP/1.1 200<nil>" {
			t.Errorf("answer = %s, want 200", got)
		}
	}
	if got := asked.Load(); got > 2 {
		t.Errorf("prefill was asked %d times for %d clients, want once or twice", got, n)
	}
}

// TestShownInfo is about what may be known of an engine's settings, whatever
// else stands in its page.
func TestShownInfo(t *testing.T) {
	page := `{"version":"0.5.9","api_key":"s3cret","host":"10.1.2.3","tp_size":2,"page_size":{"host":"10.1.2.3"},"dtype":["10.1.2.3"]}`
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(page), &all); err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(shown(all))
	if want := `{"tp_size":2,"version":"0.5.9"}`; string(got) != want {
		t.Errorf("shown(%s) = %s, want %s", page, got, want)
	}
}

// readied returns a registry of only the engine of that role.
func readied(t *testing.T, f *fleet, role workers.Role) *workers.Registry {
	t.Helper()
	cfg := workers.DefaultConfig()
	cfg.Dialect = "vllm-nixl"
	cfg.Specs = []workers.Spec{{Role: role, URL: f.decode.URL}}
	r, err := workers.NewRegistry(cfg, exchange.DefaultConfig(), policy.PrefixHash{}, func(workers.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	r.Look(t.Context())
	t.Cleanup(r.Close)
	return r
}
