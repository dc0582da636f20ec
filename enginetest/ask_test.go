package enginetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
)

type object = map[string]any

// client has a connection for each request, so that an engine which was killed
// meanwhile is no trouble.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	a := send(req)
	return a.status, a.body, a.err
}

// A reply is what came of a request.
type reply struct {
	status int
	body   string
	err    error
	took   time.Duration
}

func (r reply) String() string {
	return fmt.Sprintf("status %d, %v, after %v: %.600s", r.status, r.err, r.took.Round(time.Millisecond), r.body)
}

func send(req *http.Request) (r reply) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	resp, err := client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, body: string(body), err: err}
}

// post asks whoever is at url, for two minutes at most.
func post(url, path string, body object) reply {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	return postUntil(ctx, url, path, body)
}

func postUntil(ctx context.Context, url, path string, body object) reply {
	raw, err := json.Marshal(body)
	if err != nil {
		return reply{err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, bytes.NewReader(raw))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	return send(req)
}

// ask asks the router.
func (p *pair) ask(path string, body object) reply { return post(p.router.url, path, body) }

// An answer is what any endpoint says, in JSON or as a stream.
type answer struct {
	texts  []string // by choice, or by prompt
	prompt int      // tokens
	tokens int      // of the answer
	finish string
	parts  int  // events with text
	done   bool // a stream ended in [DONE]
}

type spoken struct {
	Text  string
	Index int
	Meta  struct {
		Prompt int `json:"prompt_tokens"`
		Tokens int `json:"completion_tokens"`
	} `json:"meta_info"`
	Choices []struct {
		Index          int
		Text           string
		Message, Delta struct{ Content string }
		Finish         string `json:"finish_reason"`
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Tokens int `json:"completion_tokens"`
	}
	Error json.RawMessage
}

// take adds one object to the answer.
func (a *answer) take(raw string) error {
	var s spoken
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return fmt.Errorf("%.200s: %w", raw, err)
	}
	if s.Error != nil {
		return fmt.Errorf("error in it: %.300s", raw)
	}
	add := func(index int, text string) {
		for len(a.texts) <= index {
			a.texts = append(a.texts, "")
		}
		a.texts[index] += text
		if text != "" {
			a.parts++
		}
	}
	if s.Choices == nil && s.Meta.Prompt > 0 { // /generate: the whole so far
		add(s.Index, "")
		a.texts[s.Index] = s.Text
		a.parts++
		a.prompt, a.tokens = s.Meta.Prompt, s.Meta.Tokens
	}
	for _, c := range s.Choices {
		add(c.Index, c.Text+c.Message.Content+c.Delta.Content)
		if c.Finish != "" {
			a.finish = c.Finish
		}
	}
	if s.Usage.Prompt > 0 {
		a.prompt, a.tokens = s.Usage.Prompt, s.Usage.Tokens
	}
	return nil
}

// read reads an answer, which must be a whole one.
func read(r reply) (a answer, err error) {
	if r.err != nil || r.status != http.StatusOK {
		return a, fmt.Errorf("%v", r)
	}
	if !strings.HasPrefix(r.body, "data:") && !strings.HasPrefix(r.body, ":") {
		if strings.HasPrefix(r.body, "[") {
			return readList(r.body)
		}
		return a, a.take(r.body)
	}
	lines := bufio.NewScanner(strings.NewReader(r.body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case a.done:
			return a, fmt.Errorf("%q after [DONE]", data)
		case data == "[DONE]":
			a.done = true
		default:
			if err := a.take(data); err != nil {
				return a, err
			}
		}
	}
	if !a.done {
		return a, fmt.Errorf("no [DONE]: %v", r)
	}
	return a, nil
}

// readList reads what /generate answers to several prompts.
func readList(body string) (a answer, err error) {
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		return a, err
	}
	for _, one := range all {
		var part answer
		if err := part.take(string(one)); err != nil {
			return a, err
		}
		a.texts = append(a.texts, part.texts...)
	}
	return a, nil
}

// say is read for who expects an answer.
func say(t *testing.T, r reply) answer {
	t.Helper()
	a, err := read(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// alone returns what one engine says that hands nothing over.
func (p *pair) alone(t *testing.T, path string, body object) []string {
	t.Helper()
	if p.plain != nil {
		return say(t, post(p.plain.url, path, body)).texts
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := sim.Expect(path, raw)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// with returns body with more keys.
func with(body object, keys object) object {
	all := object{}
	maps.Copy(all, body)
	maps.Copy(all, keys)
	return all
}

func jsonReader(body object) io.Reader {
	raw, err := json.Marshal(body)
	if err != nil {
		panic("enginetest: " + err.Error())
	}
	return bytes.NewReader(raw)
}
