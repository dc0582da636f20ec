package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pdrouter/sim"
)

// completion is a JSON answer, and stream its events, with some text.
func completion(text string) string {
	return jsonOf(map[string]any{"choices": []any{map[string]any{"text": text}}})
}

func stream(end string, texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString("data: " + completion(text) + "\n\n")
	}
	return b.String() + end
}

func envelope(code string) string {
	return jsonOf(map[string]any{"error": map[string]any{"message": "m", "type": "t", "param": nil, "code": code}})
}

func TestJudge(t *testing.T) {
	const done = "data: [DONE]\n\n"
	broken := "data: " + envelope("upstream_disconnected") + "\n\n"
	body := `{"model":"sim-model","prompt":"hello","max_tokens":3}`
	texts, err := sim.Expect(pathCompletions, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	right, half := texts[0], texts[0][:4]
	once, streamed := request{path: pathCompletions, body: body}, request{path: pathCompletions, body: body, stream: true}
	refused := request{path: pathCompletions, body: body, refused: "unsupported_n"}
	cut := errors.New("unexpected EOF")
	for _, tt := range []struct {
		name    string
		req     request
		got     reply
		outcome string // "": it must be found wrong
	}{
		{"the right text", once, reply{status: 200, body: completion(right)}, wholeAnswer},
		{"another text", once, reply{status: 200, body: completion(right + "x")}, ""},
		{"half of the text", once, reply{status: 200, body: completion(half)}, ""},
		{"no JSON", once, reply{status: 200, body: "{"}, ""},
		{"an error with status 200", once, reply{status: 200, body: envelope("decode_request_failed")}, ""},
		{"an answer that was cut", once, reply{status: 200, body: completion(right), err: cut}, ""},
		{"no answer", once, reply{err: cut}, ""},
		{"no answer in time", once, reply{err: cut, left: true, hung: true}, ""},
		{"a client that left", once, reply{err: cut, left: true}, clientLeft},
		{"an error", once, reply{status: 502, code: "decode_request_failed", body: envelope("decode_request_failed")}, "502 decode_request_failed"},
		{"an error without a head that says so", once, reply{status: 502, body: envelope("decode_request_failed")}, ""},
		{"two errors", once, reply{status: 502, code: "decode_request_failed", body: envelope("overloaded")}, ""},
		{"an error of ours alone", once, reply{status: 500, code: "internal_error", body: envelope("internal_error")}, ""},
		{"an error without an envelope", once, reply{status: 502, code: "decode_request_failed", body: "Bad Gateway"}, ""},
		{"blame of the client", once, reply{status: 400, code: "decode_upstream_error", body: envelope("decode_upstream_error")}, ""},
		{"an engine that is busy", once, reply{status: 429, code: "decode_upstream_error", body: `{"error":{"message":"m","code":429}}`}, "429 decode_upstream_error"},
		{"a refusal", refused, reply{status: 400, code: "unsupported_n", body: envelope("unsupported_n")}, refusedEarly},
		{"no refusal", refused, reply{status: 200, body: completion(right)}, ""},
		{"a whole stream", streamed, reply{status: 200, body: stream(done, half, right[4:])}, wholeAnswer},
		{"a made-up end", streamed, reply{status: 200, body: stream(done, half)}, ""},
		{"a stream that breaks off in order", streamed, reply{status: 200, body: stream(broken, half)}, toldInStream + "upstream_disconnected"},
		{"an end after the end", streamed, reply{status: 200, body: stream(broken+done, half)}, ""},
		{"a stream that just ends", streamed, reply{status: 200, body: stream("", half)}, ""},
		{"half an event", streamed, reply{status: 200, body: stream("data: {", half)}, ""},
		{"half an event, of a client that left", streamed, reply{status: 200, body: stream("data: {", half), err: cut, left: true}, clientLeft},
		{"a wrong text, of a client that left", streamed, reply{status: 200, body: stream("", "wrong"), err: cut, left: true}, ""},
	} {
		outcome, err := tt.req.judge(tt.got)
		if (err != nil) != (tt.outcome == "") || err == nil && outcome != tt.outcome {
			t.Errorf("%s: judge = %q, %v, want %q", tt.name, outcome, err, tt.outcome)
		}
	}
}

// Every request is one that sim knows the answer to, or one that is refused,
// and all kinds of clients come.
func TestRequests(t *testing.T) {
	for _, dialect := range knownDialects() {
		counts := map[string]int{}
		r := requester{random(1, 2), dialect}
		for range 2000 {
			req := r.any()
			if !json.Valid([]byte(req.body)) && req.refused != "json_parse_error" {
				t.Fatalf("%v is no JSON", req)
			}
			if _, err := sim.Expect(req.path, []byte(req.body)); err != nil && req.refused == "" {
				t.Fatalf("%v: %v", req, err)
			}
			for what, so := range map[string]bool{
				"good": req.good(), "refused": req.refused != "", "left": req.leaves > 0, "slow": req.slow > 0,
				"cut": req.cut, "streams": req.stream, req.path: true,
			} {
				if so {
					counts[what]++
				}
			}
			if bad := r.misbehaved(); bad.good() {
				t.Fatalf("%v is nobody's fault", bad)
			}
			if good := r.faultless(); !good.good() {
				t.Fatalf("%v is not answered", good)
			}
		}
		for _, what := range []string{"good", "refused", "left", "slow", "cut", "streams", pathChat, pathCompletions, pathGenerate} {
			if counts[what] < 10 {
				t.Errorf("%s: %d of 2000 requests are %s, want more", dialect, counts[what], what)
			}
		}
	}
}
