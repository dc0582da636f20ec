package router

import (
	"net/http"
	"strings"
	"testing"

	"pdrouter/metrics"
	"pdrouter/policy"
	"pdrouter/transfer"
)

func TestHintOf(t *testing.T) {
	h, cfg := &Handler{met: metrics.Discard()}, &standing{Config: Config{RoutingKeyHeaders: canonical([]string{"x-first", "x-second"})}}
	long := strings.Repeat("x", maxField+1)
	tests := []struct {
		name   string
		header http.Header
		body   string
		want   string // what is hashed; empty: no hint
		named  bool
	}{
		{"nothing", nil, `{"model":"m"}`, "", false},
		{"a routing key", http.Header{"X-Second": {"k"}}, `{}`, "k", true},
		{"the first header that is there", http.Header{"X-First": {"a"}, "X-Second": {"b"}}, `{}`, "a", true},
		{"an empty header is none", http.Header{"X-First": {""}, "X-Second": {"b"}}, `{}`, "b", true},
		{"a header that is not configured", http.Header{"X-Smg-Routing-Key": {"k"}}, `{}`, "", false},
		{"a header before the body", http.Header{"X-First": {"k"}}, `{"session_id":"s","user":"u"}`, "k", true},
		{"a session in the body", nil, `{"session_id":"s","user":"u"}`, "s", true},
		{"a cache key", nil, `{"user":"u","prompt_cache_key":"c"}`, "c", false},
		{"a user", nil, `{"user":"u"}`, "u", false},
		{"a header that is too long for an engine", http.Header{"X-First": {long}}, `{"user":"u"}`, "u", false},
		{"a name that is too long", nil, `{"user":"` + long + `"}`, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := transfer.Parse(transfer.Chat, []byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}

			sticky, named := h.hintOf(&call{cfg: cfg, r: &http.Request{Header: tt.header}}, req)

			want := uint64(0)
			if tt.want != "" {
				want = policy.StickyOf(tt.want)
			}
			if sticky != want || named != tt.named {
				t.Errorf("hintOf = %x, %t, want %x, %t", sticky, named, want, tt.named)
			}
		})
	}
}

// TestFingerprint: what an engine would not share has another key, what it would
// share has the same.
func TestFingerprint(t *testing.T) {
	h := newServingFleet(t).handler
	content := strings.Repeat("All work and no play makes Jack a dull boy. ", 200)
	key := func(body string) uint64 {
		t.Helper()
		req, err := transfer.Parse(transfer.Chat, []byte(strings.ReplaceAll(body, "TEXT", content)))
		if err != nil {
			t.Fatal(err)
		}
		c := &call{cfg: h.standing.Load(), r: &http.Request{}}
		defer h.freePrint(c)
		return h.need(c, req).Key
	}
	const base = `{"model":"m","messages":[{"role":"user","content":"TEXT"}]}`
	for name, body := range map[string]string{
		"another model":           `{"model":"n","messages":[{"role":"user","content":"TEXT"}]}`,
		"an adapter":              `{"model":"m","lora_path":"l","messages":[{"role":"user","content":"TEXT"}]}`,
		"a cache salt":            `{"model":"m","cache_salt":"l","messages":[{"role":"user","content":"TEXT"}]}`,
		"an extra key":            `{"model":"m","extra_key":"l","messages":[{"role":"user","content":"TEXT"}]}`,
		"arguments of a template": `{"model":"m","chat_template_kwargs":{"a":1},"messages":[{"role":"user","content":"TEXT"}]}`,
		"a tool":                  `{"model":"m","tools":[{"a":1}],"messages":[{"role":"user","content":"TEXT"}]}`,
		"another role":            `{"model":"m","messages":[{"role":"system","content":"TEXT"}]}`,
		"an image before":         `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://h/a"}},{"type":"text","text":"TEXT"}]}]}`,
	} {
		if key(body) == key(base) {
			t.Errorf("%s makes no difference", name)
		}
	}
	for name, body := range map[string]string{
		"whitespace":             "{\"model\" : \"m\" , \"messages\" : [ { \"role\" : \"user\" ,\n\"content\" : \"TEXT\" } ] }",
		"a turn more":            `{"model":"m","messages":[{"role":"user","content":"TEXT"},{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}`,
		"other keys":             `{"stream":true,"messages":[{"role":"user","content":"TEXT","name":null}],"max_tokens":7,"user":"u","session_id":"s","model":"m"}`,
		"a cache_salt of null":   `{"cache_salt":null,"model":"m","messages":[{"role":"user","content":"TEXT"}]}`,
		"a marker for the cache": `{"model":"m","messages":[{"role":"user","content":"TEXT","cache_control":{"type":"ephemeral"}}]}`,
	} {
		if key(body) != key(base) {
			t.Errorf("%s makes a difference", name)
		}
	}
}
