package router

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/transfer"

	"go.uber.org/zap/zaptest/observer"
)

// request sends a request without a body.
func (f *fleet) request(t *testing.T, method, path string) answer {
	t.Helper()
	got, _ := f.exchangeRaw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", method, path))
	return got
}

// TestRoutes is about what is answered where, before any worker is touched.
func TestRoutes(t *testing.T) {
	long := "/" + strings.Repeat("x", 50_000)
	tests := []struct {
		method, path string
		wantStatus   int
		wantCode     string
		wantAllow    string
	}{
		{"GET", "/v1/chat/completions", 405, "method_not_allowed", "POST"},
		{"PUT", "/v1/completions", 405, "method_not_allowed", "POST"},
		{"DELETE", "/generate", 405, "method_not_allowed", "POST"},
		{"OPTIONS", "/v1/chat/completions", 405, "method_not_allowed", "POST"},
		{"BREW", "/v1/chat/completions", 405, "method_not_allowed", "POST"},
		{"post", "/v1/chat/completions", 405, "method_not_allowed", "POST"},
		{"POST", "/liveness", 405, "method_not_allowed", "GET, HEAD"},
		{"POST", "/v1/models", 405, "method_not_allowed", "GET, HEAD"},
		{"GET", "/v1/embeddings", 405, "method_not_allowed", "POST"},
		{"GET", "/", 404, "not_found", ""},
		{"BREW", "/coffee", 404, "not_found", ""},
		{"CONNECT", "/x", 404, "not_found", ""},
		{"POST", "/v1/chat/completions/", 404, "not_found", ""},
		{"POST", "//v1/chat/completions", 404, "not_found", ""},
		{"POST", "/v1//chat/completions", 404, "not_found", ""},
		{"POST", "/x/../v1/chat/completions", 404, "not_found", ""},
		{"POST", "/v1/chat%2Fcompletions", 404, "not_found", ""},
		{"POST", "/V1/Chat/Completions", 404, "not_found", ""},
		{"POST", "/v1/chat/completions;a=b", 404, "not_found", ""},
		{"POST", "/v1/chat/completions%00", 404, "not_found", ""},
		{"POST", "/%ff%fe", 404, "not_found", ""},
		{"GET", "/workers", 404, "not_found", ""},
		{"GET", "/metrics", 404, "not_found", ""},
		{"POST", "/abort_request", 404, "not_found", ""},
		{"GET", long, 404, "not_found", ""},
		{strings.Repeat("X", 50_000), "/", 404, "not_found", ""},
		{strings.Repeat("X", 50_000), "/generate", 405, "method_not_allowed", "POST"},
	}
	f := newServingFleet(t)
	for _, tt := range tests {
		t.Run(shortened(tt.method+" "+tt.path, 40), func(t *testing.T) {
			got := f.request(t, tt.method, tt.path)

			wantError(t, got, tt.wantStatus, tt.wantCode)
			if allow := got.header.Get("Allow"); allow != tt.wantAllow {
				t.Errorf("Allow = %q, want %q", allow, tt.wantAllow)
			}
		})
	}
	f.wantUntouched(t)
	for _, entry := range f.logs.All() {
		if path := entry.ContextMap()["path"].(string); len(path) > 2*maxShown {
			t.Errorf("a path of %d bytes is in the log", len(path))
		}
	}
}

// TestProbes is about what a load balancer asks.
func TestProbes(t *testing.T) {
	f := newServingFleet(t)
	tests := []struct{ path, want string }{
		{"/liveness", "OK"},
		{"/health", "OK"},
		{"/readiness", `{"healthy_workers":2,"status":"ready","total_workers":2}`},
		{"/v1/models", fmt.Sprintf(`{"object":"list","data":[{"id":"m","object":"model","created":%d,"owned_by":"pdrouter"}]}`, f.handler.started.Unix())},
	}
	for _, tt := range tests {
		if got := f.request(t, "GET", tt.path); got.status != 200 || got.body != tt.want {
			t.Errorf("GET %s = %d %s, want 200 %s", tt.path, got.status, got.body, tt.want)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodHead, f.URL+tt.path, nil)
		if got := do(t, req); got.status != 200 || got.body != "" {
			t.Errorf("HEAD %s = %d %q, want 200 without a body", tt.path, got.status, got.body)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodHead, f.URL+"/v1/chat/completions", nil)
	if got := do(t, req); got.status != 405 || got.body != "" || got.header.Get("Allow") != "POST" {
		t.Errorf("HEAD of a POST route = %d %q allowing %q, want 405", got.status, got.body, got.header.Get("Allow"))
	}
	f.handler.Drain()
	if got := f.request(t, "GET", "/readiness"); got.status != 503 || !strings.Contains(got.body, "draining") {
		t.Errorf("GET /readiness of a draining router = %d %s, want 503", got.status, got.body)
	}
	if got := f.request(t, "GET", "/liveness"); got.status != 200 {
		t.Errorf("GET /liveness of a draining router = %d, want 200", got.status)
	}
}

// TestNotCarried is about requests that no pair can serve.
func TestNotCarried(t *testing.T) {
	const many = `{"model":"m","n":2,"messages":[]}`
	tests := []struct {
		name, dialect, path, body string
		wantStatus                int
		wantCode                  string
		wantNames                 []string
	}{
		{"two answers on SGLang", "sglang", "/v1/chat/completions", many, 400, "unsupported_n", []string{"n", "sglang"}},
		{"two answers on vLLM", "vllm-nixl", "/v1/chat/completions", many, 400, "unsupported_n", []string{"n", "vllm-nixl"}},
		{"several prompts on vLLM", "vllm-nixl", "/v1/completions", `{"model":"m","prompt":["a","b"]}`, 400, "unsupported_batch", []string{"prompt", "vllm-nixl"}},
		{"SGLang's own endpoint on vLLM", "vllm-nixl", "/generate", `{"text":"hi"}`, 501, "not_implemented", []string{"/generate", "vllm-nixl"}},
		{"responses", "sglang", "/v1/responses", "{}", 501, "not_implemented", []string{"/v1/responses", "sglang"}},
		{"embeddings", "vllm-nixl", "/v1/embeddings", "{}", 501, "not_implemented", []string{"/v1/embeddings", "vllm-nixl"}},
		{"rerank with a body that is none", "sglang", "/v1/rerank", "x", 501, "not_implemented", []string{"/v1/rerank", "sglang"}},
		{"another model", "sglang", "/v1/chat/completions", `{"model":"other","messages":[]}`, 404, "model_not_found", []string{`"param":"model"`}},
		{"another model, and two answers", "sglang", "/v1/chat/completions", `{"model":"other","n":2,"messages":[]}`, 404, "model_not_found", nil},
		{"a model without a name", "sglang", "/v1/chat/completions", `{"model":"","n":2,"messages":[]}`, 400, "unsupported_n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, tt.dialect, hang, hang)

			got := f.post(t, tt.path, tt.body)

			wantError(t, got, tt.wantStatus, tt.wantCode)
			for _, name := range tt.wantNames {
				if !strings.Contains(got.body, name) {
					t.Errorf("answer = %s, want it to name %s", got.body, name)
				}
			}
			f.wantUntouched(t)
		})
	}
}

// TestSeriesAreBounded is about metrics under random paths, methods and models
// (BUG-088).
func TestSeriesAreBounded(t *testing.T) {
	f := newServingFleet(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	send := func(i int) {
		method := string([]byte{'A' + byte(rand.N(26)), 'A' + byte(rand.N(26)), 'X'}) // never PUT, which has a series of its own
		path, body := fmt.Sprintf("/v%d/x", i), ""
		if i%2 == 0 {
			method, path, body = "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"m%d","messages":[]}`, i)
		}
		req, _ := http.NewRequestWithContext(t.Context(), method, f.URL+path, strings.NewReader(body))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 404 {
			t.Fatalf("%s %s = %d, want 404", method, path, resp.StatusCode)
		}
	}
	send(0)
	send(1)
	f.request(t, "GET", "/x")
	before := f.series(t)
	for i := range 1000 {
		send(i)
	}
	if after := f.series(t); after != before {
		t.Errorf("series = %d, were %d before 1000 random requests", after, before)
	}
	if n := f.value(t, "smg_http_requests_total", map[string]string{"path": "other"}); n != 502 {
		t.Errorf("requests counted under other = %v, want 502", n)
	}
	f.wantUntouched(t)
}

func (f *fleet) series(t *testing.T) (n int) {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		n += len(family.GetMetric())
	}
	return n
}

// TestPanic is about a bug of ours: the client gets an answer that tells it
// nothing, the log gets it once, the process goes on.
func TestPanic(t *testing.T) {
	f := newServingFleet(t)
	server := func(serve func(*call) error) answer {
		srv := httptest.NewServer(f.handler.answering(f.handler.met.Route("GET", "other"), serve))
		defer srv.Close()
		return tryGet(t, srv.URL)
	}
	got := server(func(*call) error { panic("secret") })
	wantError(t, got, 500, "internal_error")
	if strings.Contains(got.body, "secret") || strings.Contains(got.body, "goroutine") {
		t.Errorf("the client reads %s", got.body)
	}
	entry := f.lastLog(t, 1)
	if text := fmt.Sprint(entry.ContextMap()["error"]); !strings.Contains(text, "secret") || !strings.Contains(text, "surface_test.go") {
		t.Errorf("the log says %s, want the panic and where it was", text)
	}

	got = server(func(c *call) error {
		c.w.WriteHeader(200)
		c.w.send([]byte("half"))
		panic("secret")
	})
	if got.status != 200 || got.err == nil {
		t.Errorf("a panic in the middle gives %d %q (%v), want a connection that is cut", got.status, got.body, got.err)
	}
	f.lastLog(t, 2)

	got = server(func(*call) error { return nil })
	wantError(t, got, 500, "internal_error")
	f.lastLog(t, 3)

	got = server(func(*call) error { panic(http.ErrAbortHandler) })
	if got.err == nil {
		t.Errorf("ErrAbortHandler gives %d %q, want a connection that is cut", got.status, got.body)
	}
}

// tryGet gets url and reports a failure in the answer.
func tryGet(t *testing.T, url string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err, 0}
}

// TestLog is about the access log: one line for each request, with fields from
// a fixed list, and nothing that the client or an engine said of the prompt.
func TestLog(t *testing.T) {
	const secret = "tell-nobody"
	body := `{"model":"m","messages":[{"role":"user","content":"` + secret + `"}]}`
	refusal := `{"error":{"message":"bad input: ` + secret + `","type":"BadRequestError","param":null,"code":400}}`
	fields := []string{
		"request_id", "model", "stream", "path", "status", "code", "prefill", "decode", "attempts", "room", "phases", "waited_for", "ttft", "itl", "duration", "bytes",
		"prompt_tokens", "cached_tokens", "answer_tokens", "error",
	}
	tests := []struct {
		name            string
		prefill, decode http.HandlerFunc
		path, body      string
		headers         []string
		wantLevel       string
		wantMessage     string
	}{
		{"a request that is served", reply(200, chatAnswer), reply(200, chatAnswer), "/v1/chat/completions", body, nil, "info", "request"},
		{"one that prefill refuses", reply(400, refusal), hang, "/v1/chat/completions", body, nil, "warn", "request failed"},
		{"one that is refused in plain words", reply(400, "no "+secret), hang, "/v1/chat/completions", body, nil, "warn", "request failed"},
		{"one that fails inside a 200", reply(200, refusal), hang, "/v1/chat/completions", body, nil, "warn", "request failed"},
		{"one with a bad body", hang, hang, "/v1/chat/completions", `{"model":"` + secret + `",` + secret, nil, "warn", "request failed"},
		{"one with a wrong type", hang, hang, "/v1/chat/completions", `{"model":"m","messages":"` + secret + `"}`, nil, "warn", "request failed"},
		{"one of an unknown model", hang, hang, "/v1/chat/completions", `{"model":"` + secret + `"}`, nil, "warn", "request failed"},
		{"one with odd headers", hang, hang, "/v1/chat/completions", body, []string{"Content-Type: x/" + secret}, "warn", "request failed"},
		{"one with an odd encoding", hang, hang, "/v1/chat/completions", body, []string{"Content-Encoding: " + secret}, "warn", "request failed"},
		{"one without a route", hang, hang, "/x?" + secret, body, nil, "warn", "request failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", tt.prefill, tt.decode)
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nX-Smg-Routing-Key: %s\r\nContent-Length: %d\r\n", tt.path, secret, secret, len(tt.body))
			for _, line := range tt.headers {
				head += line + "\r\n"
			}

			f.exchangeRaw(t, head+"\r\n"+tt.body)

			entry := f.lastLog(t, 1)
			if entry.Level.String() != tt.wantLevel || entry.Message != tt.wantMessage {
				t.Errorf("the log says %s %q, want %s %q", entry.Level, entry.Message, tt.wantLevel, tt.wantMessage)
			}
			for name, value := range entry.ContextMap() {
				if !slices.Contains(fields, name) || strings.Contains(fmt.Sprint(value), secret) {
					t.Errorf("the log has %s=%v", name, value)
				}
			}
		})
	}
}

// TestLogOfDepartures is about clients that leave before anything was sent to
// them: that is nobody's failure, and no answer.
func TestLogOfDepartures(t *testing.T) {
	token := make(chan struct{}, 1)
	held := then(events(tokenEvent(1)), func(http.ResponseWriter, *http.Request) { token <- struct{}{} }, hang)
	tests := []struct {
		name, request string
		decode        http.HandlerFunc
		phase         string
	}{
		{"while the engines are silent", chatRequest, then(func(http.ResponseWriter, *http.Request) { token <- struct{}{} }, hang), "prefill"},
		{"while a token waits for prefill's verdict", streamRequest, held, "relay"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", hang, tt.decode)
			conn := f.dial(t, "/v1/chat/completions", tt.request)
			wait(t, "prefill's leg", func() bool { return len(f.prefill.got()) == 1 })
			<-token
			wait(t, "phase "+tt.phase, func() bool { return f.handler.Records().Running()[0].Phase.String() == tt.phase })
			conn.Close()

			entry := f.lastLog(t, 1)

			if entry.Level.String() != "info" || entry.Message != "client left" || entry.ContextMap()["status"] != int64(499) {
				t.Errorf("the log says %s %q %v, want info, client left, 499", entry.Level, entry.Message, entry.ContextMap())
			}
			if n := f.value(t, "pdrouter_client_departures_total", map[string]string{"phase": tt.phase}); n != 1 {
				t.Errorf("departures in phase %s = %v, want 1", tt.phase, n)
			}
			if n := f.value(t, "pdrouter_late_verdicts_total", nil); n != 0 {
				t.Errorf("late verdicts = %v, want 0", n)
			}
		})
	}
}

// TestHalfClosed is about a client that closes its half of the connection
// behind its request, as printf | nc does. net/http takes that for a departure;
// what must not come then is an answer that looks as if all were well.
func TestHalfClosed(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	conn := f.dial(t, "/v1/chat/completions", chatRequest)
	conn.(interface{ CloseWrite() error }).CloseWrite()

	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if b, err := io.ReadAll(conn); len(b) != 0 || err != nil {
		t.Errorf("the client reads %q (%v), want nothing and the end", b, err)
	}
}

// lastLog waits for the n-th line of the log, which must be the last.
func (f *fleet) lastLog(t *testing.T, n int) observer.LoggedEntry {
	t.Helper()
	wait(t, "the log", func() bool { return f.logs.Len() >= n })
	if got := f.logs.Len(); got != n {
		t.Errorf("lines in the log = %d, want %d", got, n)
	}
	return f.logs.All()[n-1]
}

// TestEndpointsAreRoutes ties the routes to the endpoints that dialects know.
func TestEndpointsAreRoutes(t *testing.T) {
	f := newServingFleet(t)
	for _, e := range []transfer.Endpoint{transfer.Chat, transfer.Completions, transfer.Generate} {
		if got := f.post(t, e.Path(), "x"); got.status != 400 {
			t.Errorf("POST %s = %d, want 400", e.Path(), got.status)
		}
	}
}
