package router

import (
	"net/http"
	"strings"
	"testing"

	"pdrouter/keys"
)

// TestAnthropicErrors is about Anthropic's paths, which no dialect carries: the
// error has the shape that Anthropic's clients parse, says why, and asks them not
// to try again.
func TestAnthropicErrors(t *testing.T) {
	const body = `{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"Hi"}]}`
	for _, tt := range []struct {
		name, method, path, key string
		status                  int
		kind, says              string
	}{
		{"messages", "POST", "/v1/messages", "key", 501, "api_error", "/v1/messages is not carried with prefill and decode apart, dialect sglang"},
		{"messages without a key", "POST", "/v1/messages", "other", 401, "authentication_error", "Authorization"},
		{"counting tokens", "POST", "/v1/messages/count_tokens", "key", 404, "not_found_error", "/v1/messages/count_tokens"},
		{"another method", "GET", "/v1/messages", "key", 405, "invalid_request_error", "GET"},
	} {
		f := newFleet(t, "sglang", hang, hang)
		cfg := *f.handler.standing.Load()
		cfg.APIKeys = keys.Of("key")
		f.handler.Reload(cfg.Config)
		req, _ := http.NewRequestWithContext(t.Context(), tt.method, f.URL+tt.path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+tt.key)
		got := do(t, req)
		if want := `{"type":"error","error":{"type":"` + tt.kind + `","message":"`; got.status != tt.status || !strings.HasPrefix(got.body, want) || !strings.Contains(got.body, tt.says) {
			t.Errorf("%s = %d %s, want %d %s ... %s", tt.name, got.status, got.body, tt.status, want, tt.says)
		}
		if final := got.header.Get("X-Should-Retry") == "false"; final != (tt.status == 501) {
			t.Errorf("%s: X-Should-Retry = %q; it is for what will never be carried", tt.name, got.header.Get("X-Should-Retry"))
		}
		f.wantUntouched(t)
	}
}

// TestAnthropicKinds names each status as Anthropic's API does.
func TestAnthropicKinds(t *testing.T) {
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
		429: "rate_limit_error", 500: "api_error", 503: "overloaded_error", 504: "api_error",
	} {
		if got := (&Error{Status: status}).anthropicKind(); got != want {
			t.Errorf("kind of %d = %s, want %s", status, got, want)
		}
	}
}
