package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pdrouter/sim"
)

const (
	event1 = `data: {"choices":[{"index":0,"text":"one"}]}` + "\n\n"
	event2 = `data: {"choices":[{"index":0,"text":" two"}]}` + "\n\n"
	usage  = `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

// answering returns a client of a server that gives every request one answer.
func answering(t *testing.T, status int, body string) *Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return &Client{URL: srv.URL, Model: "m", HTTP: srv.Client()}
}

func TestComplete(t *testing.T) {
	tests := []struct {
		name, body string
		status     int
		want       Result
		err        string
	}{
		{
			"a whole answer has text and usage", ": comment\n\n" + event1 + event2 + usage + done, 200,
			Result{Text: "one two", PromptTokens: 9, CachedTokens: 4, Tokens: 2},
			"",
		},
		{
			"usage that is not there is unknown, not zero", event1 + done, 200,
			Result{Text: "one", PromptTokens: -1, CachedTokens: -1, Tokens: -1},
			"",
		},
		{
			"usage without cached tokens leaves these unknown", event1 + `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":null}}` + "\n\n" + done, 200,
			Result{Text: "one", PromptTokens: 9, CachedTokens: -1, Tokens: 1},
			"",
		},
		{"a stream without an end is an error", event1 + event2, 200, Result{}, "without [DONE]"},
		{"an error in the stream is an error", event1 + `data: {"error":{"message":"decode died"}}` + "\n\n", 200, Result{}, "decode died"},
		{"what is not JSON is an error", "data: {\n\n" + done, 200, Result{}, "read an event"},
		{"a status is told with what was said", `{"error":{"message":"busy"}}`, 503, Result{}, "status 503: {"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := answering(t, tt.status, tt.body).Complete(t.Context(), Ask{Prompt: "p", Tokens: 2})
			if res.Status != tt.status {
				t.Errorf("status = %d, want %d", res.Status, tt.status)
			}
			if tt.err != "" {
				if res.Err == nil || !strings.Contains(res.Err.Error(), tt.err) {
					t.Fatalf("error = %v, want one with %q", res.Err, tt.err)
				}
				return
			}
			w := tt.want
			if res.Err != nil || res.Text != w.Text || res.PromptTokens != w.PromptTokens || res.CachedTokens != w.CachedTokens || res.Tokens != w.Tokens {
				t.Errorf("result = %+v, want %+v", res, w)
			}
			if parts := strings.Count(tt.body, `"text"`); res.TTFT <= 0 || len(res.Gaps) != parts-1 || res.Duration < res.TTFT {
				t.Errorf("times = %v, %v, %v", res.TTFT, res.Gaps, res.Duration)
			}
		})
	}
}

func TestCompleteCompares(t *testing.T) {
	c := answering(t, 200, event1+done)
	for _, tt := range []struct {
		name  string
		texts []string
		fails error
		want  string
	}{
		{"the right text is right", []string{"one"}, nil, ""},
		{"another text is wrong", []string{"two"}, nil, `wrong answer: "one", want ["two"]`},
		{"no text is wrong", nil, nil, "wrong answer"},
		{"what cannot be told is an error", nil, errors.New("no such model"), "no such model"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.Expect = func(path string, body []byte) ([]string, error) {
				if path != "/v1/completions" || !strings.Contains(string(body), `"prompt":"p"`) {
					t.Errorf("asked for the answer to %s %s", path, body)
				}
				return tt.texts, tt.fails
			}
			err := c.Complete(t.Context(), Ask{Prompt: "p", Tokens: 1}).Err
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCompleteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	c := &Client{URL: srv.URL, HTTP: srv.Client()}
	if err := c.Complete(ctx, Ask{}).Err; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
}

// startEngine runs a simulated engine that computes prompts itself, and
// returns it with a client.
func startEngine(t *testing.T) (*sim.Engine, *Client) {
	t.Helper()
	cfg := sim.DefaultConfig()
	cfg.Dialect, cfg.Role, cfg.KVTokens = sim.VLLMNixl, sim.Decode, 2_000_000
	e, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	c := &Client{URL: e.URL(), Model: cfg.Model, HTTP: &http.Client{Transport: &http.Transport{}}, Expect: sim.Expect}
	t.Cleanup(func() {
		c.HTTP.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e, c
}

func TestCompleteOnAnEngine(t *testing.T) {
	_, c := startEngine(t)
	prompt := Text(3, 300)
	for i, cached := range []int{0, 256} {
		var heard strings.Builder
		n := 0
		res := c.Complete(t.Context(), Ask{Prompt: prompt, Tokens: 40, Token: func(s string) { heard.WriteString(s); n++ }})
		if res.Err != nil || res.PromptTokens != 300 || res.Tokens != 40 || max(res.CachedTokens, 0) != cached {
			t.Errorf("answer %d = %+v, want %d of 300 tokens cached", i+1, res, cached)
		}
		if heard.String() != res.Text || n != 40 {
			t.Errorf("heard %d tokens %q, want 40 that make %q", n, heard.String(), res.Text)
		}
	}
}
