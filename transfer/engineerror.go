package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrNotJSON reports an answer that is not one whole JSON value.
var ErrNotJSON = errors.New("answer is not JSON")

// ErrNoAnswer reports an answer that is JSON, but nothing that an endpoint could
// answer with.
var ErrNoAnswer = errors.New("answer is no JSON object")

// maxMessage bounds the text of an error that an engine did not put into JSON,
// in bytes.
const maxMessage = 1024

// An EngineError is what an engine said went wrong, in a status of its own or
// inside a 200.
type EngineError struct {
	Status  int    // 400 to 599: the answer's, or what the error inside a 200 amounts to
	Message string // the engine's words; may name rooms and addresses
	Type    string // the engine's name for it, which is not stable; may be ""
	Raw     []byte // the engine's error as a body that can be relayed verbatim; nil if it sent none
}

// Error implements error. It is meant for logs.
func (e *EngineError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("engine says %d, and not why", e.Status)
	}
	return fmt.Sprintf("engine says %d: %s", e.Status, e.Message)
}

// Unexplained tells whether the engine did not say what went wrong: vLLM's word
// for a hand-off that failed is "Internal server error", and so it is for
// anything else that nobody expected.
func (e *EngineError) Unexplained() bool {
	said := strings.ToLower(strings.TrimRight(e.Message, ". \n"))
	return e.Status == 500 && (said == "" || said == "internal server error" || said == "internal error")
}

// OfHandOff tells whether the engine says that it failed to hand KV over, or to
// get it. SGLang names its exception, and the phase before it: "Prefill
// bootstrap failed", "Decode handshake failed", "Decode transfer failed".
func (e *EngineError) OfHandOff() bool {
	for _, words := range [...]string{"KVTransferError", "bootstrap failed", "handshake failed", "transfer failed"} {
		if strings.Contains(e.Message, words) {
			return true
		}
	}
	return false
}

// ParseError reads an answer of status 400 or above, in any of the envelopes
// that engines and their web servers use. It keeps body.
func ParseError(status int, body []byte) *EngineError {
	e := &EngineError{Status: status, Raw: body}
	s := scanner{b: body}
	start := s.space(0)
	if end := s.value(start, 0); end < 0 || !s.end(end) || body[start] != '{' {
		e.Message = plain(body)
		return e
	}
	in := readEnvelope(body, start, true)
	e.Message, e.Type = in.message, in.kind
	if e.Message == "" {
		e.Message = plain(body)
	}
	return e
}

// plain makes a message of a body that is no envelope.
func plain(body []byte) string {
	body = bytes.TrimSpace(body[:min(len(body), maxMessage)])
	return strings.ToValidUTF8(string(body), string(utf8.RuneError))
}

// An envelope is what could be read of an error object.
type envelope struct {
	message string
	kind    string
	code    int64
}

// status returns the HTTP status that an error inside a 200 stands for: its
// code if that is one, else by its type. Types are not stable, so only those
// that blame the client count.
func (e *envelope) status() int {
	if 400 <= e.code && e.code <= 599 {
		return int(e.code)
	}
	kind := strings.ToLower(strings.NewReplacer(" ", "", "_", "").Replace(e.kind))
	for _, t := range [...]struct {
		kind   string
		status int
	}{
		{"badrequest", 400},
		{"invalidrequest", 400},
		{"authentication", 401},
		{"unauthorized", 401},
		{"permission", 403},
		{"forbidden", 403},
		{"notfound", 404},
		{"unprocessable", 422},
		{"ratelimit", 429},
		{"toomany", 429},
		{"notimplemented", 501},
		{"overloaded", 503},
		{"unavailable", 503},
		{"timeout", 504},
	} {
		if strings.HasPrefix(kind, t.kind) || strings.HasPrefix(kind, "service"+t.kind) {
			return t.status
		}
	}
	if n, ok := integer([]byte(e.kind)); ok && 400 <= n && n <= 599 {
		return int(n)
	}
	return 500
}

// readEnvelope reads the scanned object at start: flat, or the outer one of an
// error inside.
func readEnvelope(b []byte, start int, outer bool) envelope {
	var out envelope
	m := (&scanner{b: b}).object(start, 0)
	var buf [maxKeyLen]byte
	for m.more() {
		value := m.value()
		switch string(m.name(b, &buf)) {
		case "error":
			if outer {
				out.inside(b, m.start, m.end)
			}
		case "detail":
			if out.message == "" {
				out.message = textOr(value)
			}
		case "message":
			if out.message == "" {
				out.message = text(value)
			}
		case "type":
			if out.kind == "" {
				out.kind = text(value)
			}
		case "code":
			if out.code == 0 {
				out.code = number(value)
			}
		}
	}
	return out
}

// inside reads the value of an "error" key.
func (e *envelope) inside(b []byte, start, end int) {
	switch b[start] {
	case 'n':
	case '{':
		*e = readEnvelope(b, start, false)
	default:
		*e = envelope{message: textOr(b[start:end]), kind: e.kind, code: e.code}
	}
}

// textOr returns a string value as text, any other as it is spelt.
func textOr(value []byte) string {
	if value[0] == '"' {
		return text(value)
	}
	return plain(value)
}

// number returns an integer that is spelt as one or as a string.
func number(value []byte) int64 {
	if value[0] == '"' {
		value = []byte(text(value))
	}
	n, _ := integer(value)
	return n
}
