package transfer

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A mergeCapture is a request for something that only prefill knows, what both
// legs of a real pair answered, and what one vLLM alone did.
type mergeCapture struct {
	Path                   string
	Client                 json.RawMessage
	Prefill, Decode, Alone struct{ Body string }
}

// TestVLLMMergedAnswersAreWhatOneEngineSays merges the answers of a real pair
// and compares with the answer of one real engine to the same request.
func TestVLLMMergedAnswersAreWhatOneEngineSays(t *testing.T) {
	files, err := filepath.Glob("testdata/captures/vllm/merge_*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			c := readCapture[mergeCapture](t, "vllm", name)
			e := Completions
			if c.Path == Chat.Path() {
				e = Chat
			}
			req, err := Parse(e, c.Client)
			if err == nil {
				err = VLLMNIXL{}.Check(req)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := VLLMNIXL{}.Merge(req, []byte(c.Prefill.Body), []byte(c.Decode.Body))
			if err != nil {
				t.Fatal(err)
			}
			if at, same := alike(answerOf(t, got), answerOf(t, []byte(c.Alone.Body)), ""); !same {
				t.Errorf("Merge: differs at %s:\n got %s\nwant %s", at, got, c.Alone.Body)
			}
		})
	}
}

// answerOf decodes an answer but for what differs from request to request.
func answerOf(t *testing.T, b []byte) any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	for _, k := range []string{"id", "created", "kv_transfer_params"} {
		delete(m, k)
	}
	return m
}

// alike compares decoded JSON, numbers to five digits: KV blocks that went over
// the wire change the sixth.
func alike(a, b any, at string) (where string, same bool) {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return at, false
		}
		for k := range a {
			if where, same := alike(a[k], b[k], at+"."+k); !same {
				return where, false
			}
		}
		return "", true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return at, false
		}
		for i := range a {
			if where, same := alike(a[i], b[i], at+"[]"); !same {
				return where, false
			}
		}
		return "", true
	case float64:
		b, ok := b.(float64)
		return at, ok && math.Abs(a-b) <= 1e-4*max(1, math.Abs(a))
	}
	return at, reflect.DeepEqual(a, b)
}

// TestSGLangMergedAnswersHaveAllLogprobs merges the answers of a real pair:
// logprobs for each token of the prompt, as prefill says, and of the answer.
func TestSGLangMergedAnswersHaveAllLogprobs(t *testing.T) {
	for _, name := range []string{"merge_generate_logprobs", "merge_generate_logprobs_batch", "merge_completion_echo_logprobs", "merge_completion_echo_batch", "generate_flat"} {
		t.Run(name, func(t *testing.T) {
			c := readCapture[sglangCapture](t, "sglang", name)
			e := endpointFor(c.Request)
			req, err := Parse(e, c.Request)
			if err != nil {
				t.Fatal(err)
			}
			prefill, decode := []byte(c.Responses[0].Body), []byte(c.Responses[1].Body)
			merged, err := SGLang{}.Merge(req, prefill, decode)
			if err != nil {
				t.Fatal(err)
			}
			got, p, d := answers(merged, e), answers(prefill, e), answers(decode, e)
			if len(got) != max(1, req.Batch()) {
				t.Fatalf("%d answers, want %d", len(got), max(1, req.Batch()))
			}
			for i := range got {
				if e == Generate {
					checkMetaInfo(t, got[i], p[i], d[i])
				} else {
					checkChoice(t, got[i], p[i], d[i])
				}
			}
		})
	}
}

// answers returns the answers of a batch, or its choices.
func answers(b []byte, e Endpoint) (all []map[string]any) {
	if e == Completions {
		var c struct{ Choices []map[string]any }
		_ = json.Unmarshal(b, &c)
		return c.Choices
	}
	if json.Unmarshal(b, &all) != nil {
		all = []map[string]any{object(b)}
	}
	return all
}

func checkMetaInfo(t *testing.T, got, prefill, decode map[string]any) {
	t.Helper()
	g, p, d := got["meta_info"].(map[string]any), prefill["meta_info"].(map[string]any), decode["meta_info"].(map[string]any)
	for k := range d {
		want := d[k]
		switch {
		case strings.HasPrefix(k, "input_"):
			want = p[k]
		case k == "output_token_ids_logprobs":
			if first := g[k].([]any)[0]; first == nil {
				t.Errorf("meta_info.%s has nothing of the first token", k)
			}
			continue
		}
		if !reflect.DeepEqual(g[k], want) {
			t.Errorf("meta_info.%s = %v, want %v", k, g[k], want)
		}
	}
	if n := len(g["input_token_logprobs"].([]any)); float64(n) != toFloat(g["prompt_tokens"]) {
		t.Errorf("%d logprobs for %v tokens of the prompt", n, g["prompt_tokens"])
	}
}

func toFloat(v any) float64 {
	if n, ok := v.(json.Number); ok {
		f, _ := n.Float64()
		return f
	}
	f, _ := v.(float64)
	return f
}

func checkChoice(t *testing.T, got, prefill, decode map[string]any) {
	t.Helper()
	if got["text"] != decode["text"] {
		t.Errorf("text = %v, want %v", got["text"], decode["text"])
	}
	g, p, d := got["logprobs"].(map[string]any), prefill["logprobs"].(map[string]any), decode["logprobs"].(map[string]any)
	for k := range d {
		before, after := p[k].([]any), d[k].([]any)
		want := append(append([]any{}, before[:len(before)-1]...), after...)
		if !reflect.DeepEqual(g[k], want) {
			t.Errorf("logprobs.%s = %v, want %v", k, g[k], want)
		}
	}
	var all strings.Builder
	for _, tok := range g["tokens"].([]any) {
		all.WriteString(tok.(string))
	}
	if all.String() != got["text"] {
		t.Errorf("tokens %q do not make the text %q", all.String(), got["text"])
	}
}

// TestMergeRefusesAnswersThatDoNotFit: an error is better than an answer that
// is put together wrongly.
func TestMergeRefusesAnswersThatDoNotFit(t *testing.T) {
	echo := `{"prompt":"a","echo":true,"logprobs":1}`
	for name, c := range map[string]struct {
		d               Dialect
		e               Endpoint
		client          string
		prefill, decode string
	}{
		"no choices":             {VLLMNIXL{}, Completions, echo, `{}`, `{"choices":[]}`},
		"not JSON":               {VLLMNIXL{}, Completions, echo, `{"choices":[`, `{"choices":[{"text":"b"}]}`},
		"a list":                 {VLLMNIXL{}, Completions, echo, `[]`, `[]`},
		"text is no text":        {VLLMNIXL{}, Completions, echo, `{"choices":[{"text":"ab"}]}`, `{"choices":[{"text":5}]}`},
		"no logprobs":            {VLLMNIXL{}, Completions, echo, `{"choices":[{"text":"ab"}]}`, `{"choices":[{"text":"b"}]}`},
		"no message":             {VLLMNIXL{}, Chat, `{"messages":[{"role":"assistant","content":"a"}],"echo":true}`, `{"choices":[{}]}`, `{"choices":[{}]}`},
		"no meta_info":           {SGLang{}, Generate, `{"text":"a","return_logprob":true,"logprob_start_len":0}`, `{}`, `{}`},
		"one answer, two wanted": {SGLang{}, Completions, `{"prompt":["a","b"],"echo":true,"logprobs":1}`, `{"choices":[{"logprobs":{}}]}`, `{"choices":[]}`},
		"empty":                  {SGLang{}, Generate, `{"text":"a","return_logprob":true,"logprob_start_len":0}`, ``, ``},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := Parse(c.e, []byte(c.client))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.d.Merge(req, []byte(c.prefill), []byte(c.decode)); !errors.Is(err, ErrUnfit) {
				t.Errorf("Merge = %s, %v, want ErrUnfit", got, err)
			}
		})
	}
}
