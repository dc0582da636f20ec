package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A sglangCapture is a request to a real pair and what its legs answered.
type sglangCapture struct {
	Request   json.RawMessage
	Responses []capturedLeg
}

// A capturedLeg is one leg's answer.
type capturedLeg struct {
	Leg     string
	Status  int
	Headers map[string]string
	Body    string
	Error   string
}

// The order in which the captures were made: what was cached by then counts.
func sglangOrder() []string {
	return []string{
		"chat", "chat_stream", "completion", "generate", "generate_stream", "chat_logprobs", "generate_batch_list",
		"completion_batch_list", "batch_scalar", "no_port", "no_room", "toolong", "badparam", "n2", "decode_missing",
		"decode_missing_stream", "prefill_missing", "prefill_missing_stream", "wrong_port", "abort_decode_mid",
		"abort_decode_waiting", "abort_prefill_waiting", "decode_after_prefill_dropped", "prefill_after_decode_dropped",
		"prefill_died_chat", "prefill_died_chat_stream", "prefill_died_completion", "prefill_died_generate",
		"prefill_died_generate_stream", "prefill_died_chat_logprobs", "prefill_died_generate_batch_list",
		"prefill_died_completion_batch_list",
	}
}

func TestSGLangAnswersAsCaptured(t *testing.T) {
	change := func(c *Config) {
		c.Model, c.BlockSize, c.KVTokens, c.ContextLength, c.NoCacheReport = "smollm2", 1, 8192, 2048, true
		c.DecodePerToken = time.Millisecond
		c.DisconnectDelay = 200 * time.Millisecond
	}
	p, all := newPair(t, SGLang, change), t
	seen := []string{"room_dup_a", "room_dup_b"} // see TestRoomUsedTwice
	for _, name := range sglangOrder() {
		seen = append(seen, name)
		t.Run(name, func(t *testing.T) {
			var c sglangCapture
			readCapture(t, "sglang/"+name+".json", &c)
			if name == "prefill_died_chat" {
				// In the middle of its work, which takes a second here.
				p = newPair(all, SGLang, func(c *Config) { change(c); c.PrefillPerToken = 50 * time.Millisecond })
			}
			p.replay(t, name, c)
		})
	}
	files, _ := filepath.Glob("testdata/captures/sglang/*.json")
	for _, f := range files {
		if !slices.Contains(seen, strings.TrimSuffix(filepath.Base(f), ".json")) {
			t.Errorf("capture %s is not replayed", f)
		}
	}
}

// replay sends a captured request to the legs that it was sent to, and
// compares their answers.
func (p *pair) replay(t *testing.T, name string, c sglangCapture) {
	raw := p.adapt(t, c)
	path := pathChat
	switch {
	case strings.Contains(name, "generate"):
		path = pathGenerate
	case strings.Contains(name, "completion") || strings.Contains(name, "batch"):
		path = pathCompletions
	}
	p.before(t, name, path, raw)
	var answers []<-chan answer
	for _, leg := range c.Responses {
		e := p.decode
		if leg.Leg == Prefill {
			e = p.prefill
		}
		answers = append(answers, later(func() answer { return send(e, path, raw) }))
	}
	p.during(t, name)
	for i, leg := range c.Responses {
		got := <-answers[i]
		if leg.Error != "" {
			if got.err == nil {
				t.Errorf("%s answers %d, want an error as %s", leg.Leg, got.status, leg.Error)
			}
			continue
		}
		if got.err != nil {
			t.Fatal(leg.Leg, got.err)
		}
		compareAnswers(t, leg, got)
	}
}

// adapt puts the ports of the test into a captured request, and makes its
// prompt one that ends as the captured one did.
func (p *pair) adapt(t *testing.T, c sglangCapture) string {
	t.Helper()
	port, _ := json.Marshal(p.prefill.BootstrapPort())
	raw := bytes.ReplaceAll(c.Request, []byte("8998"), port)
	raw = bytes.ReplaceAll(raw, []byte(": 8999"), []byte(": 1"))
	stops := strings.Contains(c.Responses[len(c.Responses)-1].Body, `"finish_reason":"stop"`)
	for i := range 100 {
		suffix := strings.Repeat("!", i) + `?"`
		try := string(bytes.ReplaceAll(raw, []byte(`?"`), []byte(suffix)))
		r, err := parse(pathChat, []byte(try))
		if err != nil {
			return string(raw) // not a chat
		}
		if _, s := r.length(r.prompts[0].identity(), 2048); s == stops {
			return try
		}
	}
	return string(raw)
}

// before brings about what was so when the request was sent.
func (p *pair) before(t *testing.T, name, path, raw string) {
	t.Helper()
	dropped := func(e *Engine) {
		ctx, cancel := context.WithCancel(context.Background())
		gone := later(func() answer { return sendContext(ctx, e, path, raw) })
		eventually(t, "request arrives", func() bool { return e.Stats().Requests > 0 })
		cancel()
		<-gone
	}
	switch {
	case name == "decode_after_prefill_dropped":
		dropped(p.prefill)
	case name == "prefill_after_decode_dropped":
		dropped(p.decode)
	case strings.HasPrefix(name, "prefill_died") && name != "prefill_died_chat":
		_ = p.stopPrefill()
	}
}

// during does what happened while the request was served.
func (p *pair) during(t *testing.T, name string) {
	t.Helper()
	switch name {
	case "abort_decode_mid":
		eventually(t, "decode generates", func() bool { return p.decode.Stats().Running > 0 })
		send(p.decode, "/abort_request", body{"rid": "my-rid-1"})
	case "abort_decode_waiting":
		eventually(t, "decode waits", func() bool { return p.decode.Stats().Transferring > 0 })
		send(p.decode, "/abort_request", body{"rid": "my-rid-2"})
	case "abort_prefill_waiting":
		eventually(t, "prefill waits", func() bool { return p.prefill.rooms.waiting() > 0 })
		send(p.prefill, "/abort_request", body{"rid": "my-rid-3"})
	case "prefill_died_chat":
		eventually(t, "prefill computes", func() bool { return p.prefill.Stats().Running > 0 })
		_ = p.stopPrefill()
	}
}

// compareAnswers compares status, header names and body.
func compareAnswers(t *testing.T, want capturedLeg, got answer) {
	t.Helper()
	if got.status != want.Status {
		t.Errorf("%s answers %d, want %d: %s", want.Leg, got.status, want.Status, got.body)
	}
	sameHeaders(t, got.header, slices.Collect(maps.Keys(want.Headers)))
	if want.Headers["Server"] != "" && got.header.Get("Server") != want.Headers["Server"] {
		t.Errorf("server is %q", got.header.Get("Server"))
	}
	sameShape(t, got.body, want.Body)
}

// sameHeaders compares the names of headers, but for those of the connection.
func sameHeaders(t *testing.T, got http.Header, want []string) {
	t.Helper()
	names := func(keys []string) []string {
		var out []string
		for _, k := range keys {
			if k = strings.ToLower(k); k != "connection" && k != "transfer-encoding" {
				out = append(out, k)
			}
		}
		slices.Sort(out)
		return out
	}
	g, w := names(slices.Collect(maps.Keys(got))), names(want)
	if !slices.Equal(g, w) {
		t.Errorf("headers are %v, want %v", g, w)
	}
}

func readCapture(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/captures", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}
