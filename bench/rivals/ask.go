package main

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

	"pdrouter/sim"
)

// patience is how long a request may take. A router that is silent longer is
// said to give no answer.
const patience = 10 * time.Second

const chat = "/v1/chat/completions"

// An order is what is asked of a router. Each n is another prompt.
type order struct {
	n      int
	stream bool
	tokens int  // default 8
	leave  bool // when the first token is there
}

func (o order) body() []byte {
	tokens := o.tokens
	if tokens == 0 {
		tokens = 8
	}
	return fmt.Appendf(nil, `{"model":"sim-model","messages":[{"role":"user","content":"%d: %s"}],"max_tokens":%d,"ignore_eos":true,"temperature":0,"stream":%t}`,
		o.n, strings.Repeat("a question of some length. ", 8), tokens, o.stream)
}

// A reply is what a client had of its answer.
type reply struct {
	status   int
	body     string
	err      error // what cut it, or why there was none
	hung     bool
	took     time.Duration
	asItMust bool // whole, and what the engines must say
}

// ask sends a request and reads its answer to the end, or until patience is over.
func (p *proxy) ask(ctx context.Context, o order) reply {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := newClient()
	defer client.CloseIdleConnections()
	body := o.body()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+chat, bytes.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	var got reply
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		got.status = resp.StatusCode
		got.body, err = read(resp.Body, o.leave)
	}
	got.err, got.took = err, time.Since(began)
	got.hung = errors.Is(err, context.DeadlineExceeded)
	if want, err := sim.Expect(chat, body); err == nil {
		text, whole := got.text(o.stream)
		got.asItMust = got.err == nil && got.status == http.StatusOK && whole && text == want[0]
	}
	return got
}

// read reads an answer to its end, or until its first event.
func read(in io.Reader, leave bool) (string, error) {
	if !leave {
		text, err := io.ReadAll(in)
		return string(text), err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	return line, err
}

// right reports whether the answer is whole and what the engines must say.
func (r reply) right() bool { return r.asItMust }

// done reports whether a stream says that it is whole.
func (r reply) done() bool { return strings.Contains(r.body, "data: [DONE]") }

// told reports whether a client can see that its answer is not whole: by its
// status, by an error event, or because the connection broke.
func (r reply) told() bool {
	return !r.hung && (r.err != nil || r.status != http.StatusOK || strings.Contains(r.body, `"error":`))
}

// text returns the text of an answer and whether it is whole.
func (r reply) text(stream bool) (text string, whole bool) {
	type choices struct {
		Choices []struct {
			Message, Delta struct{ Content string }
		}
	}
	if !stream {
		var one choices
		if err := json.Unmarshal([]byte(r.body), &one); err != nil || len(one.Choices) == 0 {
			return "", false
		}
		return one.Choices[0].Message.Content, true
	}
	for line := range strings.Lines(r.body) {
		var one choices
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if ok && json.Unmarshal([]byte(data), &one) == nil && len(one.Choices) > 0 {
			text += one.Choices[0].Delta.Content
		}
	}
	return text, r.done()
}

// String is what stands in the table.
func (r reply) String() string {
	switch {
	case r.hung:
		return fmt.Sprintf("no answer within %v", patience)
	case r.status == 0:
		return fmt.Sprintf("connection broken after %v", r.took.Round(time.Millisecond))
	case r.right():
		return fmt.Sprintf("200, right, after %v", r.took.Round(time.Millisecond))
	case r.err != nil:
		return fmt.Sprintf("%d, then the connection broke", r.status)
	case r.status != http.StatusOK:
		return fmt.Sprintf("%d after %v", r.status, r.took.Round(time.Millisecond))
	}
	how := "a normal end"
	if strings.Contains(r.body, `"error":`) {
		how = "an error event"
	}
	if r.done() {
		how += " and [DONE]"
	}
	return "200, " + how
}
