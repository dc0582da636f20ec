package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const completionsPath = "/v1/completions"

// A Client asks an OpenAI server for completions, streamed, and measures them.
type Client struct {
	URL   string // base URL, without a slash at its end
	Model string
	Key   string // bearer key; empty: none is sent
	HTTP  *http.Client

	// Expect returns the texts that a body sent to a path must be answered
	// with, one per prompt; sim.Expect does so for simulated engines. Nil:
	// texts are not looked at.
	Expect func(path string, body []byte) ([]string, error)
}

// An Ask is what a Client is to ask for.
type Ask struct {
	ID     string // of the request, as X-Request-Id; empty: none is sent
	Prompt string
	Tokens int // length of the answer, whatever the model has to say

	// Token is called with each token as it comes. Nil: nobody listens.
	Token func(text string)
}

// A Result is what came of a request.
type Result struct {
	Status int   // of the answer; 0: there was none
	Err    error // nil: the answer is whole, and right as far as that is known
	Text   string

	TTFT     time.Duration // to the first token, from sending
	Duration time.Duration // to the last byte
	Gaps     []time.Duration
	Lag      time.Duration // how much later than due it was sent, in a Replay

	// As the answer's usage has it; -1: it does not say.
	PromptTokens, CachedTokens, Tokens int
}

// Complete asks, and returns when the whole answer is there.
func (c *Client) Complete(ctx context.Context, ask Ask) Result {
	body, err := json.Marshal(map[string]any{
		"model": c.Model, "prompt": ask.Prompt, "max_tokens": ask.Tokens, "ignore_eos": true,
		"stream": true, "stream_options": map[string]any{"include_usage": true},
	})
	if err != nil {
		return Result{Err: err}
	}
	res := Result{PromptTokens: -1, CachedTokens: -1, Tokens: -1}
	began := time.Now()
	res.Err = c.exchange(ctx, ask, body, &reader{res: &res, began: began, token: ask.Token})
	res.Duration = time.Since(began)
	if res.Err == nil && c.Expect != nil {
		res.Err = c.compare(body, res.Text)
	}
	return res
}

// exchange sends body and reads the answer into r.
func (c *Client) exchange(ctx context.Context, ask Ask, body []byte, r *reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+completionsPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if ask.ID != "" {
		req.Header.Set("X-Request-Id", ask.ID)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r.res.Status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1024)) // what there is of it
		return fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(said))
	}
	return r.read(resp.Body)
}

// compare reports an answer that is not what it must be.
func (c *Client) compare(body []byte, got string) error {
	want, err := c.Expect(completionsPath, body)
	if err != nil {
		return fmt.Errorf("tell the right answer: %w", err)
	}
	if len(want) != 1 || got != want[0] {
		return fmt.Errorf("wrong answer: %.60q, want %.60q", got, want)
	}
	return nil
}

// A reader reads one streamed answer.
type reader struct {
	res   *Result
	began time.Time
	last  time.Time // when the last token came; zero: none did
	token func(string)
	text  strings.Builder
	done  bool
}

// An event is one of a stream, as far as it is looked at.
type event struct {
	Choices []struct {
		Text string `json:"text"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// maxEvent bounds a line of a stream, in bytes.
const maxEvent = 1 << 20

// read reads to the end of the answer, not only to its last event: the server
// has not finished the request before that.
func (r *reader) read(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // a comment, or the end of an event
		}
		if data = bytes.TrimSpace(data); string(data) == "[DONE]" {
			r.done = true
			continue
		}
		if err := r.event(data); err != nil {
			return err
		}
	}
	r.res.Text = r.text.String()
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	if !r.done {
		return errors.New("the stream ended without [DONE]")
	}
	return nil
}

func (r *reader) event(data []byte) error {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	if len(e.Error) > 0 {
		return fmt.Errorf("the stream has an error: %s", e.Error)
	}
	if len(e.Choices) > 0 && e.Choices[0].Text != "" {
		r.heard(e.Choices[0].Text)
	}
	if u := e.Usage; u != nil {
		r.res.PromptTokens, r.res.Tokens = u.Prompt, u.Completion
		if u.Details != nil && u.Details.Cached != nil {
			r.res.CachedTokens = *u.Details.Cached
		}
	}
	return nil
}

// heard notes a token.
func (r *reader) heard(text string) {
	now := time.Now()
	if r.last.IsZero() {
		r.res.TTFT = now.Sub(r.began)
	} else {
		r.res.Gaps = append(r.res.Gaps, now.Sub(r.last))
	}
	r.last = now
	r.text.WriteString(text)
	if r.token != nil {
		r.token(text)
	}
}
