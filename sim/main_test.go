package sim

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs an engine until the test ends, or stop is called.
func start(t *testing.T, cfg Config) (e *Engine, stop func() error) {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var result error
	stopped := false
	stop = func() error {
		cancel()
		if !stopped {
			stopped = true
			result = <-done
		}
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return e, stop
}

// A pair is a prefill and a decode engine.
type pair struct {
	t               *testing.T
	prefill, decode *Engine
	stopPrefill     func() error
	stopDecode      func() error
}

// newPair starts a pair whose engines are alike.
func newPair(t *testing.T, dialect string, change func(*Config)) *pair {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dialect, cfg.Role = dialect, Prefill
	cfg.BootstrapTimeout, cfg.WaitingTimeout = 300*time.Millisecond, 400*time.Millisecond
	cfg.HandshakeTimeout, cfg.LostTimeout = 20*time.Millisecond, 20*time.Millisecond
	cfg.DisconnectDelay = 10 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	p := &pair{t: t}
	p.prefill, p.stopPrefill = start(t, cfg)
	cfg.Role, cfg.Addr, cfg.BootstrapAddr = Decode, "127.0.0.1:0", p.prefill.side.Addr().String()
	p.decode, p.stopDecode = start(t, cfg)
	return p
}

// An answer is what an engine answered.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of the body, or of all
}

// send posts a body, any JSON value, and waits for the answer.
func send(e *Engine, path string, body any) answer {
	return sendContext(context.Background(), e, path, body)
}

func sendContext(ctx context.Context, e *Engine, path string, body any) answer {
	raw, ok := body.(string)
	if !ok {
		b, err := json.Marshal(body)
		if err != nil {
			return answer{err: err}
		}
		raw = string(b)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL()+path, strings.NewReader(raw))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	return do(req)
}

func get(e *Engine, path string) answer {
	req, err := http.NewRequest(http.MethodGet, e.URL()+path, nil)
	if err != nil {
		return answer{err: err}
	}
	return do(req)
}

func do(req *http.Request) answer {
	// A connection of its own, so that none is left for goleak to find.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err}
}

// later runs f and returns where its answer will be.
func later(f func() answer) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- f() }()
	return c
}

// A body is a JSON object in the making.
type body map[string]any

// with returns b with more keys.
func (b body) with(more body) body {
	out := body{}
	maps.Copy(out, b)
	maps.Copy(out, more)
	return out
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}

// atRest checks that nothing is left of any request.
func (p *pair) atRest() {
	p.t.Helper()
	for _, e := range []*Engine{p.prefill, p.decode} {
		eventually(p.t, e.cfg.Role+" at rest", func() bool {
			st := e.Stats()
			return st.Requests == 0 && st.Running == 0 && st.Waiting == 0 && st.Transferring == 0 &&
				st.UsedBlocks == 0 && st.HeldBlocks == 0
		})
		if e.rooms != nil {
			eventually(p.t, "rooms empty", func() bool {
				e.rooms.mu.Lock()
				defer e.rooms.mu.Unlock()
				return len(e.rooms.table) == 0
			})
		}
	}
}

// handOffKeys returns what an SGLang pair's bodies need beside the prompt.
func (p *pair) handOffKeys(room uint64) body {
	return body{
		"bootstrap_host": "127.0.0.1",
		"bootstrap_port": p.prefill.BootstrapPort(),
		"bootstrap_room": room,
	}
}

// sglang sends a body with its hand-off keys to both engines.
func (p *pair) sglang(path string, b body, room uint64) (prefill, decode answer) {
	b = b.with(p.handOffKeys(room))
	first := later(func() answer { return send(p.prefill, path, b) })
	decode = send(p.decode, path, b)
	return <-first, decode
}

// vllmPrefill sends the prefill leg of a body and returns the parameters that
// it answers.
func (p *pair) vllmPrefill(path string, b body) (prefill answer, params map[string]any) {
	p.t.Helper()
	leg := b.with(body{"max_tokens": 1, "stream": false, "kv_transfer_params": body{
		"do_remote_decode": true, "do_remote_prefill": false,
	}})
	delete(leg, "stream_options")
	prefill = send(p.prefill, path, leg)
	var told struct {
		Params map[string]any `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal([]byte(prefill.body), &told); err != nil {
		p.t.Fatal(err, prefill.body)
	}
	return prefill, told.Params
}

// vllm sends a body to prefill, then to decode.
func (p *pair) vllm(path string, b body) (prefill, decode answer) {
	p.t.Helper()
	prefill, params := p.vllmPrefill(path, b)
	return prefill, send(p.decode, path, b.with(body{"kv_transfer_params": params}))
}

// text returns what an answer says, whatever its form.
func (a answer) text() string {
	frames := []string{a.body}
	streams := strings.HasPrefix(a.body, "data: ") || strings.HasPrefix(a.body, ":")
	if streams {
		frames = strings.Split(strings.TrimSuffix(a.body, "\n\n"), "\n\n")
	}
	var b strings.Builder
	for _, f := range frames {
		var part struct {
			Text    *string
			Choices []struct {
				Text    string
				Message struct{ Content string }
				Delta   struct{ Content string }
			}
		}
		f = strings.TrimPrefix(f, "data: ")
		if json.Unmarshal([]byte(f), &part) != nil {
			continue
		}
		if part.Text != nil {
			b.Reset()
			b.WriteString(*part.Text)
		}
		for _, c := range part.Choices {
			b.WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
	}
	return b.String()
}

// must is for answers that have to be 200 and whole.
func (a answer) must(t *testing.T) answer {
	t.Helper()
	if a.err != nil || a.status != http.StatusOK {
		t.Fatalf("answer is %d, %v: %s", a.status, a.err, a.body)
	}
	return a
}
