package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pdrouter/sim"
)

// A reply is what a client had of its answer.
type reply struct {
	status int
	code   string // X-SMG-Error-Code
	body   string
	err    error // what cut it, or why there was none
	left   bool  // the client had left by then
	hung   bool  // nothing ended it within the bound
	took   time.Duration
}

func (r reply) String() string {
	body := r.body
	if len(body) > 2000 {
		body = body[:1000] + " ... " + body[len(body)-1000:]
	}
	return fmt.Sprintf("status %d, error code %q, cut by %v, client left %t, after %v\n%s", r.status, r.code, r.err, r.left, r.took.Round(time.Millisecond), body)
}

// The outcomes of requests that are as they must be. A request that failed is
// told by its status and its code.
const (
	wholeAnswer  = "200 whole and right"
	clientLeft   = "client left"
	refusedEarly = "refused, as it must be"
	toldInStream = "error event amid the stream: " // with its code
)

// mayFail are the codes that a client may read when engines are sick. A code
// that is not here is a change of the API, or a bug: internal_error is one.
func mayFail() []string {
	return []string{
		"prefill_request_failed", "decode_request_failed", "prefill_upstream_error", "decode_upstream_error",
		"prefill_invalid_answer", "decode_invalid_answer", "prefill_invalid_handoff", "first_byte_timeout", "request_timeout", "upstream_disconnected",
		"no_available_workers", "no_healthy_worker_pair", "overloaded",
	}
}

// judge says how r ended, or what was wrong with that.
func (r request) judge(got reply) (outcome string, err error) {
	switch {
	case got.hung:
		return "", errors.New("it hangs")
	case got.left && got.err != nil && got.status != 200:
		return clientLeft, nil
	case got.status == 0 || got.err != nil && !got.left:
		return "", errors.New("the answer was cut")
	case r.refused != "":
		code, err := envelopeCode(got.body)
		if err == nil && (got.status/100 == 2 || code != r.refused || got.code != code) {
			err = fmt.Errorf("want the error %s", r.refused)
		}
		return refusedEarly, err
	case got.status != 200:
		return judgeError(got)
	case r.stream:
		return r.judgeStream(got)
	case got.left && got.err != nil:
		return clientLeft, nil
	}
	want, err := sim.Expect(r.path, []byte(r.body))
	if err != nil {
		return "", fmt.Errorf("what it should be: %w", err)
	}
	text, err := textOf(r.path, got.body)
	if err == nil && text != want[0] {
		err = fmt.Errorf("the text is %q, want %q", text, want[0])
	}
	return wholeAnswer, err
}

// judgeError judges an answer with the status of an error.
func judgeError(got reply) (outcome string, err error) {
	outcome = fmt.Sprintf("%d %s", got.status, got.code)
	switch {
	case !slices.Contains(mayFail(), got.code):
		return "", fmt.Errorf("the code %q is unknown", got.code)
	case got.status == 429:
		return outcome, engineError(got.body)
	case got.status < 500:
		return "", errors.New("the client is blamed for what it did right")
	}
	code, err := envelopeCode(got.body)
	if err == nil && code != got.code {
		err = fmt.Errorf("the head says %s, the body %s", got.code, code)
	}
	return outcome, err
}

// judgeStream judges a stream. Whatever cut it, what came before is right.
func (r request) judgeStream(got reply) (outcome string, err error) {
	want, err := sim.Expect(r.path, []byte(r.body))
	if err != nil {
		return "", fmt.Errorf("what it should be: %w", err)
	}
	h, err := hearAll(r.path, got.body)
	switch {
	case err != nil:
		return "", err
	case !strings.HasPrefix(want[0], h.text) || h.done && h.text != want[0]:
		return "", fmt.Errorf("the text is %q, want %q", h.text, want[0])
	case h.done:
		return wholeAnswer, nil
	case got.left && got.err != nil:
		return clientLeft, nil
	case h.half || h.code == "":
		return "", errors.New("it ended with neither [DONE] nor an error event")
	case !slices.Contains(mayFail(), h.code):
		return "", fmt.Errorf("the code %q is unknown", h.code)
	}
	return toldInStream + h.code, nil
}

// envelopeCode returns the code of an error in the router's envelope, which
// must have every field.
func envelopeCode(body string) (string, error) {
	var e struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return "", fmt.Errorf("no envelope: %w", err)
	}
	if e.Error.Message == "" || e.Error.Type == "" || e.Error.Code == "" {
		return "", errors.New("the envelope lacks something")
	}
	return e.Error.Code, nil
}

// engineError wants an error of an engine's, whose codes may be numbers, or one
// of the router's.
func engineError(body string) error {
	var e struct{ Error struct{ Message string } }
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Message == "" {
		return errors.New("the body is no error of an engine's or the router's")
	}
	return nil
}

// spoken is what any endpoint says: the whole of a JSON answer, or an event.
type spoken struct {
	Text    string // of /generate
	Choices []struct {
		Text           string
		Message, Delta struct{ Content string }
	}
}

// textOf returns the text of a JSON answer, or of one event.
func textOf(path, body string) (string, error) {
	var s spoken
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		return "", err
	}
	if path == pathGenerate {
		return s.Text, nil
	}
	var text strings.Builder
	for _, c := range s.Choices {
		text.WriteString(c.Text + c.Message.Content + c.Delta.Content)
	}
	return text.String(), nil
}

// heard is what a client has of a stream.
type heard struct {
	text string
	done bool   // [DONE] came, and last
	code string // of an error event, which came last
	half bool   // its bytes end inside an event
}

// hearAll reads the bytes of a stream. Nothing may follow the event that ends
// it, and each event must be whole.
func hearAll(path, stream string) (h heard, err error) {
	for stream != "" {
		event, rest, whole := strings.Cut(stream, "\n\n")
		stream, h.half = rest, !whole
		if h.half || event == "" {
			continue
		}
		if h.done || h.code != "" {
			return h, fmt.Errorf("%q came after the end", event)
		}
		if err := h.hear(path, event); err != nil {
			return h, fmt.Errorf("event %q: %w", event, err)
		}
	}
	return h, nil
}

// hear takes one event in.
func (h *heard) hear(path, event string) error {
	data, ok := strings.CutPrefix(event, "data: ")
	switch {
	case strings.HasPrefix(event, ":"):
		return nil
	case !ok:
		return errors.New("is no data")
	case data == "[DONE]":
		h.done = true
		return nil
	case strings.HasPrefix(data, `{"error"`):
		var err error
		h.code, err = envelopeCode(data)
		return err
	}
	text, err := textOf(path, data)
	if path == pathGenerate {
		h.text = text // the whole so far
	} else {
		h.text += text
	}
	return err
}
