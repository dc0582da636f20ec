package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"pdrouter/keys"
	"pdrouter/sim"
)

// TestOfficialClients runs the clients that people use against a router with
// simulated engines, in either dialect: what they are answered, what they throw,
// and what they leave behind.
func TestOfficialClients(t *testing.T) {
	for name, start := range puppets() {
		for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
			t.Run(dialect+" "+name, func(t *testing.T) {
				t.Parallel()
				p := start(t)
				t.Run("answers", func(t *testing.T) { p.checkAnswers(t, dialect) })
				t.Run("errors", func(t *testing.T) { p.checkErrors(t, dialect) })
				t.Run("broken stream", func(t *testing.T) { p.checkBroken(t, dialect) })
				t.Run("retries", func(t *testing.T) { p.checkRetries(t, dialect) })
				if dialect == sim.SGLang { // nothing of it depends on that
					t.Run("retries to no end", func(t *testing.T) { p.checkFutile(t, dialect) })
				}
				t.Run("timeout", func(t *testing.T) { p.checkTimeout(t, dialect) })
				t.Run("abort", func(t *testing.T) { p.checkAbort(t, dialect) })
			})
		}
	}
}

const riverQuestion = "Which river runs through the old town?"

// chatOf returns a chat of one question.
func chatOf(text string, more ...map[string]any) map[string]any {
	body := map[string]any{"model": "sim-model", "max_tokens": 12, "messages": []any{map[string]any{"role": "user", "content": text}}}
	for _, m := range more {
		maps.Copy(body, m)
	}
	return body
}

// streamed is what makes a stream of a body, with usage at its end.
func streamed() map[string]any {
	return map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}}
}

// checkAnswers wants the text that the prompt has, streamed or not, and a tool
// called.
func (p *puppet) checkAnswers(t *testing.T, dialect string) {
	base := startFleet(t, dialect)
	ask := func(endpoint string, body map[string]any) clientAnswer {
		t.Helper()
		got := p.do(t, clientOrder{Base: base, Endpoint: endpoint, Body: body})
		if got.Error != nil {
			t.Fatalf("%s %v: %+v", endpoint, body, *got.Error)
		}
		return got
	}
	if got := ask("models", nil); !reflect.DeepEqual(got.Parts, []string{"sim-model"}) {
		t.Errorf("models = %q", got.Parts)
	}
	chat := expect(t, "/v1/chat/completions", chatOf(riverQuestion))
	for _, more := range []map[string]any{nil, streamed()} {
		got := ask("chat", chatOf(riverQuestion, more))
		if got.text() != chat || got.Usage != 12 || got.Finish != "length" || more != nil && len(got.Parts) != 12 {
			t.Errorf("chat with %v = %+v, want %q", more, got, chat)
		}
	}
	plain := map[string]any{"model": "sim-model", "max_tokens": 12, "prompt": riverQuestion}
	text := expect(t, "/v1/completions", plain)
	for _, stream := range []bool{false, true} {
		plain["stream"] = stream
		if got := ask("completions", plain); got.text() != text {
			t.Errorf("completion, streamed %t = %q, want %q", stream, got.Parts, text)
		}
	}
	tools := map[string]any{"max_tokens": 60, "tool_choice": "required", "tools": []any{map[string]any{
		"type": "function", "function": map[string]any{"name": "find_river", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"town": map[string]any{"type": "string"}},
		}},
	}}}
	arguments := expect(t, "/v1/chat/completions", chatOf(riverQuestion, tools))
	for _, more := range []map[string]any{nil, streamed()} {
		if got := ask("chat", chatOf(riverQuestion, tools, more)); got.Tool != "find_river" || got.Arguments != arguments || got.Finish != "tool_calls" {
			t.Errorf("tools with %v = %+v, want find_river(%s)", more, got, arguments)
		}
	}
}

// checkErrors wants that each error is thrown as the type that the library has
// for it.
func (p *puppet) checkErrors(t *testing.T, dialect string) {
	f := newFleet(t, fleetPlan{
		dialect: dialect,
		engine:  func(c *sim.Config) { c.ContextLength = 500 },
		config:  func(c *Config) { c.Router.MaxBodyBytes = 8 << 10 },
	})
	keyed := newFleet(t, fleetPlan{dialect: dialect, config: func(c *Config) { c.Router.APIKeys = keys.Of("right") }})
	plainError := "APIError" // of a status that the library has no type for
	if p.name != "node" {
		plainError = "APIStatusError"
	}
	for _, tt := range []struct {
		name string
		clientOrder
		want clientError
	}{
		{"several answers", clientOrder{Base: f.base, Body: chatOf(riverQuestion, map[string]any{"n": 2, "temperature": 0})}, clientError{Type: "BadRequestError", Status: 400}},
		{"too long for the engine", clientOrder{Base: f.base, Body: chatOf(prompt(1, 4000))}, clientError{Type: "BadRequestError", Status: 400}},
		{"too long in a stream", clientOrder{Base: f.base, Body: chatOf(prompt(1, 4000), streamed())}, clientError{Type: "BadRequestError", Status: 400}},
		{"unknown model", clientOrder{Base: f.base, Body: chatOf(riverQuestion, map[string]any{"model": "nobody"})}, clientError{Type: "NotFoundError", Status: 404, Code: "model_not_found"}},
		{"too large", clientOrder{Base: f.base, Body: chatOf(prompt(1, 9000))}, clientError{Type: plainError, Status: 413, Code: "request_too_large"}},
		{"no key", clientOrder{Base: keyed.base, Body: chatOf(riverQuestion)}, clientError{Type: "AuthenticationError", Status: 401, Code: "invalid_api_key"}},
	} {
		tt.Endpoint = "chat"
		tt.Client = map[string]any{"max_retries": 0}
		got := p.do(t, tt.clientOrder).Error
		if got == nil || got.Type != tt.want.Type || got.Status != tt.want.Status || tt.want.Code != nil && got.Code != tt.want.Code || got.Message == "" {
			t.Errorf("%s: error = %+v, want %+v", tt.name, got, tt.want)
		}
	}
	got := p.do(t, clientOrder{Base: keyed.base, Endpoint: "chat", Body: chatOf(riverQuestion), Client: map[string]any{"api_key": "right"}})
	if got.Error != nil {
		t.Errorf("with the right key: %+v", got.Error)
	}
}

// checkBroken wants that the end of a stream whose engine has died is an error
// of the API, after what had come.
func (p *puppet) checkBroken(t *testing.T, dialect string) {
	f := newFleet(t, fleetPlan{dialect: dialect})
	for _, e := range f.decode {
		e.Fail(sim.Fault{Kind: sim.FaultDie, Tokens: 3})
	}
	got := p.do(t, clientOrder{Base: f.base, Endpoint: "chat", Body: chatOf(riverQuestion, streamed())})
	if got.Error == nil || got.Error.Type != "APIError" || got.Error.Message == "" || len(got.Parts) != 3 {
		t.Errorf("a stream that broke after 3 tokens = %+v, error %+v; want an APIError", got, got.Error)
	}
	if n := f.arrived(t); n != 1 {
		t.Errorf("%v requests arrived, want 1: nobody asks again for what has begun", n)
	}
	f.wantQuiet(t)
}

// arrived returns how many chats have come to the router.
func (f *fleet) arrived(t *testing.T) float64 {
	t.Helper()
	return f.scraped(t).sum("smg_http_requests_total", `path="/v1/chat/completions"`)
}

// wantQuiet wants that, soon, nobody works: neither the router nor any engine.
func (f *fleet) wantQuiet(t *testing.T) {
	t.Helper()
	var busy []string
	if !eventually(func() bool {
		busy = nil
		for _, e := range f.engines() {
			if st := e.Stats(); st.Requests+st.Running+st.Waiting+st.Transferring > 0 {
				busy = append(busy, jsonOf(t, st))
			}
		}
		return len(busy) == 0 && f.scraped(t).sum("smg_http_connections_active") == 0
	}) {
		t.Errorf("at rest engines have %s", strings.Join(busy, "\n"))
	}
	wantRest(t, f.scraped(t))
}

// narrow returns a fleet that runs one request at a time and has no line, with
// one request on it; leave ends that.
func narrow(t *testing.T, dialect string) (f *fleet, leave func()) {
	t.Helper()
	f = newFleet(t, fleetPlan{
		dialect: dialect,
		engine:  func(c *sim.Config) { c.DecodePerToken = 10 * time.Millisecond },
		config:  func(c *Config) { c.Workers.Admission.MaxInFlight, c.Workers.Admission.QueueSize = 1, 0 },
	})
	client := newClient(t)
	for range 30 { // so many have gone in ten seconds that the next place is not far
		post(t, client, f.base+"/v1/completions", jsonOf(t, map[string]any{"model": "sim-model", "prompt": "Hi", "max_tokens": 1}))
	}
	body := jsonOf(t, map[string]any{"model": "sim-model", "prompt": "the one", "max_tokens": 20_000, "ignore_eos": true, "stream": true})
	resp, err := client.Post(f.base+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the one request = %d", resp.StatusCode)
	}
	return f, func() { resp.Body.Close() }
}

// checkRetries wants that a client which is told when to come again does so by
// itself, with its defaults, and that each of its requests is one.
func (p *puppet) checkRetries(t *testing.T, dialect string) {
	f, leave := narrow(t, dialect)
	got := p.do(t, clientOrder{Base: f.base, Endpoint: "chat", Body: chatOf(riverQuestion), Client: map[string]any{"max_retries": 0}})
	if got.Error == nil || got.Error.Type != "RateLimitError" || got.Error.Status != 429 || got.Error.Code != "admission_queue_full" {
		t.Errorf("with no room: %+v, want a RateLimitError", got.Error)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		eventually(func() bool { return f.refused() == 2 })
		leave()
	}()
	got = p.do(t, clientOrder{Base: f.base, Endpoint: "chat", Body: chatOf(riverQuestion), Client: map[string]any{"max_retries": 5}})
	<-left
	if got.Error != nil || got.text() != expect(t, "/v1/chat/completions", chatOf(riverQuestion)) {
		t.Errorf("with room when it came again: %+v, error %+v", got, got.Error)
	}
	if got.Seconds < 1 {
		t.Errorf("came again and was answered after %v s; Retry-After was at least 1", got.Seconds)
	}
	f.wantQuiet(t)
	if refused, arrived := f.refused(), f.arrived(t); arrived != float64(refused)+1 {
		t.Errorf("%v chats arrived and %d were refused, want one more", arrived, refused)
	}
	if sent := f.finished(); sent != 31 {
		t.Errorf("decode has answered %d requests, want one beside the first 30", sent)
	}
}

// refused returns how many requests there was no room for, as the log says.
func (f *fleet) refused() (n int) {
	for _, line := range f.logs.All() {
		if line.ContextMap()["status"] == int64(http.StatusTooManyRequests) {
			n++
		}
	}
	return n
}

// finished returns how many requests decode has answered.
func (f *fleet) finished() (n uint64) {
	for _, e := range f.decode {
		n += e.Stats().Finished
	}
	return n
}

// checkFutile wants that a client whose requests all fail gives up as it does by
// itself, after three, with the engines' status; and that the router's own
// attempts bound what that costs the engines.
func (p *puppet) checkFutile(t *testing.T, dialect string) {
	f := newFleet(t, fleetPlan{dialect: dialect})
	for _, e := range f.prefill {
		e.Fail(sim.Fault{Kind: sim.FaultStatus, Status: 500, Body: `{"error":{"message":"out of memory"}}`})
	}
	got := p.do(t, clientOrder{Base: f.base, Endpoint: "chat", Body: chatOf(riverQuestion)})
	if got.Error == nil || got.Error.Type != "InternalServerError" || got.Error.Status < 500 {
		t.Errorf("with engines that fail: %+v, want an InternalServerError", got.Error)
	}
	if n := f.arrived(t); n != 3 {
		t.Errorf("%v requests arrived, want the 3 that a client sends by itself", n)
	}
	var legs uint64
	for _, e := range f.prefill {
		legs += e.Stats().TotalRequests
	}
	if most := uint64(3 * DefaultConfig().Router.Retries.Attempts); legs > most {
		t.Errorf("prefill had %d requests, want at most %d", legs, most)
	}
	f.wantQuiet(t)
}

// sluggish returns a fleet whose prefill takes half a minute for a question.
func sluggish(t *testing.T, dialect string) *fleet {
	t.Helper()
	return newFleet(t, fleetPlan{dialect: dialect, engine: func(c *sim.Config) { c.PrefillPerToken = 2 * time.Second }})
}

// begun reports whether prefill works.
func (f *fleet) begun() bool {
	for _, e := range f.prefill {
		if st := e.Stats(); st.Running+st.Transferring > 0 {
			return true
		}
	}
	return false
}

// checkTimeout wants that a client which gives up waiting throws its type, and
// that the engines are told.
func (p *puppet) checkTimeout(t *testing.T, dialect string) {
	want := "APITimeoutError"
	if p.name == "node" {
		want = "APIConnectionTimeoutError"
	}
	f := sluggish(t, dialect)
	var more map[string]any
	if dialect == sim.VLLMNixl {
		more = streamed() // one of each is enough: that a client leaves looks the same
	}
	got := p.do(t, clientOrder{Base: f.base, Endpoint: "chat", Body: chatOf(riverQuestion, more), Client: map[string]any{"timeout": 1, "max_retries": 0}})
	if got.Error == nil || got.Error.Type != want {
		t.Errorf("after a second: %+v, want %s", got.Error, want)
	}
	f.wantQuiet(t)
}

// checkAbort wants that engines are at rest when a client has left: in the
// middle of a stream, and before anything came of one.
func (p *puppet) checkAbort(t *testing.T, dialect string) {
	f := newFleet(t, fleetPlan{dialect: dialect, engine: func(c *sim.Config) { c.DecodePerToken = 5 * time.Millisecond }})
	long := chatOf(riverQuestion, map[string]any{"stream": true, "max_tokens": 20_000})
	got := p.do(t, clientOrder{Base: f.base, Endpoint: "chat", Body: long, Extra: map[string]any{"ignore_eos": true}, Leave: 3})
	if got.Error != nil || len(got.Parts) < 3 {
		t.Errorf("a stream that is left after 3 tokens = %+v, error %+v", got, got.Error)
	}
	f.wantQuiet(t)
	if n := f.finished(); n != 0 {
		t.Errorf("decode has answered %d requests to the end, want none", n)
	}
	if p.name == "python" {
		return // it has nothing but its timeout before a stream begins
	}
	s := sluggish(t, dialect)
	now := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { eventually(s.begun) }))
	defer now.Close()
	got = p.do(t, clientOrder{Base: s.base, Endpoint: "chat", Body: chatOf(riverQuestion, streamed()), Cancel: now.URL})
	if want := map[string]string{"node": "APIUserAbortError", "async python": "CancelledError"}[p.name]; got.Error == nil || got.Error.Type != want {
		t.Errorf("cancelled in prefill: %+v, want %s", got.Error, want)
	}
	s.wantQuiet(t)
}
