package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A spoken is one choice, or the whole, of what an engine says on any endpoint:
// of a JSON answer or of an event.
type spoken struct {
	Index   int
	Text    string
	Message struct{ Content string }
	Delta   struct{ Content string }
}

// An envelope is an error as a client is told it.
type envelope struct {
	Error *struct {
		Message, Type, Code string
		Param               *string
	}
}

// parseEnvelope returns the code of an error in our envelope, with every field
// that it must have.
func parseEnvelope(body string) (code string, err error) {
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return "", fmt.Errorf("no envelope: %w", err)
	}
	if e.Error == nil || e.Error.Message == "" || e.Error.Type == "" || e.Error.Code == "" {
		return "", fmt.Errorf("the envelope lacks something: %s", body)
	}
	return e.Error.Code, nil
}

// parseRefusal wants an engine's own error, which is relayed as it is: the
// engine speaks of the client's own request, and its codes are numbers.
func parseRefusal(body string) error {
	var e struct{ Error struct{ Message string } }
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Message == "" {
		return fmt.Errorf("no error of an engine's or ours: %w", err)
	}
	return nil
}

// parseAnswer returns the texts of a JSON answer, in the order of its choices.
func parseAnswer(path, body string) ([]string, error) {
	if path == "/generate" {
		return parseGenerated(body)
	}
	var answer struct{ Choices []spoken }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return nil, err
	}
	texts := make([]string, len(answer.Choices))
	for _, c := range answer.Choices {
		if c.Index < 0 || c.Index >= len(texts) {
			return nil, fmt.Errorf("index %d of %d choices", c.Index, len(texts))
		}
		texts[c.Index] = c.Text + c.Message.Content
	}
	return texts, nil
}

// parseGenerated does so for /generate, which answers a list with a list.
func parseGenerated(body string) ([]string, error) {
	var all []spoken
	if !strings.HasPrefix(body, "[") {
		body = "[" + body + "]"
	}
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		return nil, err
	}
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = one.Text
	}
	return texts, nil
}

// A heard is what a client has of a stream.
type heard struct {
	texts map[int]string
	done  bool   // [DONE] came, and last
	code  string // of an error event, which came last
	half  bool   // its bytes end inside an event
}

// parseStream reads the bytes of a stream. Nothing may follow the event that
// ends it, and each event must be whole.
func parseStream(path, stream string) (h heard, err error) {
	h.texts = map[int]string{}
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
		return fmt.Errorf("is no data")
	case data == "[DONE]":
		h.done = true
		return nil
	case strings.HasPrefix(data, `{"error"`):
		var err error
		h.code, err = parseEnvelope(data)
		return err
	}
	if path == "/generate" {
		var one spoken
		err := json.Unmarshal([]byte(data), &one)
		h.texts[0] = one.Text // the whole so far
		return err
	}
	var chunk struct{ Choices []spoken }
	err := json.Unmarshal([]byte(data), &chunk)
	for _, c := range chunk.Choices {
		h.texts[c.Index] += c.Text + c.Delta.Content
	}
	return err
}

// inOrder returns n texts by their index.
func (h *heard) inOrder(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = h.texts[i]
	}
	return texts
}
