package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// goldenParts calls add for each part of that name in the golden cases.
func goldenParts(f *testing.F, name string, add func(e Endpoint, data []byte)) {
	f.Helper()
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden cases: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		path, _, _ := strings.Cut(string(archive.Comment), "\n")
		for _, e := range []Endpoint{Chat, Completions, Generate} {
			for _, part := range archive.Files {
				if path == e.Path() && part.Name == name {
					add(e, bytes.TrimSuffix(part.Data, []byte("\n")))
				}
			}
		}
	}
}

// FuzzParse: what is accepted is JSON, and its legs are the client's body with
// our edits and no hand-off key of the client; what is refused as JSON is none.
func FuzzParse(f *testing.F) {
	goldenParts(f, "client.json", func(e Endpoint, data []byte) { f.Add(uint8(e), data) })
	f.Add(uint8(0), []byte(`{"model":"m","n":1e400,"s":"\u0000"}`))
	f.Add(uint8(0), []byte(`null`))
	f.Fuzz(func(t *testing.T, endpoint uint8, body []byte) {
		e := Endpoint(endpoint % 3)
		req, err := Parse(e, body)
		checkInPieces(t, e, body, req, err)
		if err != nil {
			bad, ok := errors.AsType[*BadRequest](err)
			if !ok || bad.Message == "" || bad.Code == "" {
				t.Fatalf("Parse(%q) = %v, want a BadRequest", body, err)
			}
			if bad.Code == CodeJSON && oracleTakes(body) && !strings.Contains(bad.Message, whyDepth) {
				t.Fatalf("Parse(%q) = %v, but it is JSON", body, err)
			}
			return
		}
		if !oracleTakes(body) {
			t.Fatalf("Parse(%q) succeeded, but it is not JSON", body)
		}
		req.Model()
		req.MaxTokens()
		req.Hint()
		req.Seed(nil)
		checkPrompt(t, req)
		for _, d := range []Dialect{SGLang{}, VLLMNIXL{}} {
			if Carries(d, e) && d.Check(req) == nil {
				checkLegs(t, d, req)
			}
		}
	})
}

// FuzzMerge: what is merged of JSON answers is JSON.
func FuzzMerge(f *testing.F) {
	goldenParts(f, "reply.json", func(e Endpoint, data []byte) {
		f.Add(uint8(e), data, data)
	})
	goldenParts(f, "answer.json", func(e Endpoint, data []byte) {
		f.Add(uint8(e), data, []byte(`{"choices":[{"text":"b","logprobs":{"tokens":["b"],"text_offset":[0]}}]}`))
	})
	clients := map[Endpoint]string{
		Chat:        `{"messages":[{"role":"assistant","content":""}],"echo":true,"prompt_logprobs":1}`,
		Completions: `{"prompt":"","echo":true,"logprobs":1,"prompt_logprobs":1}`,
		Generate:    `{"text":"a","return_logprob":true,"logprob_start_len":0}`,
	}
	f.Fuzz(func(t *testing.T, endpoint uint8, prefill, decode []byte) {
		e := Endpoint(endpoint % 3)
		req := parse(t, e, clients[e])
		for _, d := range []Dialect{SGLang{}, VLLMNIXL{}} {
			merged, err := d.Merge(req, prefill, decode)
			if err != nil || !json.Valid(prefill) || !json.Valid(decode) {
				continue
			}
			if !json.Valid(merged) {
				t.Fatalf("Merge(%q, %q) = %q", prefill, decode, merged)
			}
		}
	})
}

// FuzzClassify: an event is the same with and without its frame, and is a
// failure only if the oracle sees an error in its place.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"index":0,"delta":{"content":"error [DONE] {\"error\":1}"},"finish_reason":null}]}`,
		`{"error":{"message":"m","type":"t","code":500}}`, `{"error":null,"choices":[]}`, `{"object":"error","message":"m"}`,
		`{"text":"","meta_info":{"finish_reason":{"type":"abort","status_code":503,"message":"m"}}}`, `[DONE]`, `[]`, `[`, `{`,
	} {
		f.Add(uint8(0), []byte(s))
		f.Add(uint8(2), []byte(s))
	}
	f.Fuzz(func(t *testing.T, endpoint uint8, data []byte) {
		e := Endpoint(endpoint % 3)
		ev := Classify(e, data)
		if (ev.Kind == Failure) != (ev.Err != nil) {
			t.Fatalf("Classify(%q) = %+v", data, ev)
		}
		if ev.Err != nil && (ev.Err.Status < 400 || ev.Err.Status > 599) {
			t.Fatalf("Classify(%q) has status %d", data, ev.Err.Status)
		}
		if !oracleTakes(data) || data[0] != '{' || bytes.ContainsAny(data, "\r\n") {
			return
		}
		framed := append(append([]byte("data: "), data...), "\n\n"...)
		if got := Classify(e, framed); got.Kind != ev.Kind || got.Aborted != ev.Aborted {
			t.Fatalf("Classify(%q) = %+v, without its frame %+v", framed, got, ev)
		}
		if ev.Kind == Failure && e != Generate && !oracleFails(t, data) {
			t.Fatalf("Classify(%q) = failure", data)
		}
		if ev.Kind != Failure && oracleFails(t, data) {
			t.Fatalf("Classify(%q) = %+v, want a failure", data, ev)
		}
	})
}

// oracleFails tells whether a payload reports an error at its top.
func oracleFails(t *testing.T, data []byte) bool {
	t.Helper()
	for _, p := range memberList(t, data) {
		var s string
		if p.name == "error" && string(p.value) != "null" ||
			p.name == "object" && json.Unmarshal(p.value, &s) == nil && s == "error" {
			return true
		}
	}
	return false
}

// FuzzVerdict: an answer that is no JSON is never taken for a good one.
func FuzzVerdict(f *testing.F) {
	goldenParts(f, "reply.json", func(e Endpoint, data []byte) { f.Add(uint8(e), data) })
	f.Add(uint8(2), []byte(`[{"meta_info":{"finish_reason":{"type":"abort","status_code":null}}}]`))
	f.Fuzz(func(t *testing.T, endpoint uint8, body []byte) {
		e := Endpoint(endpoint % 3)
		_, err := Verdict(e, body)
		if errors.Is(err, ErrNotJSON) == json.Valid(body) && !strings.Contains(errText(err), whyDepth) && !strings.Contains(errText(err), whyUTF8) {
			t.Fatalf("Verdict(%q) = %v", body, err)
		}
		if _, werr := Whole(e, body); (werr != nil) != (err != nil) && !strings.Contains(errText(err), "aborted") {
			t.Fatalf("Verdict(%q) = %v, Whole: %v", body, err, werr)
		}
		ParseError(500, body)
		if params, err := handoff(body); err == nil && params != nil && !json.Valid(params) {
			t.Fatalf("handoff(%q) = %q", body, params)
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
