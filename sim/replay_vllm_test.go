package sim

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A vllmCapture is one request to one real engine and its answer.
type vllmCapture struct {
	URL      string
	Request  json.RawMessage
	Headers  map[string]string `json:"request_headers"`
	Response struct {
		Status    int
		Headers   map[string]string
		JSON      json.RawMessage
		Raw       string
		Exception string
	}
}

func (c vllmCapture) path() string { return c.URL[strings.Index(c.URL, "/v1/"):] }

func readVLLM(t *testing.T, name string) vllmCapture {
	t.Helper()
	var c vllmCapture
	readCapture(t, "vllm/"+name+".json", &c)
	return c
}

// compare compares an answer with the captured one.
func (c vllmCapture) compare(t *testing.T, got answer) {
	t.Helper()
	if c.Response.Exception != "" {
		if got.err == nil {
			t.Errorf("answer is %d, want none: %s", got.status, got.body)
		}
		return
	}
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.status != c.Response.Status {
		t.Errorf("answer is %d, want %d: %s", got.status, c.Response.Status, got.body)
	}
	sameHeaders(t, got.header, slices.Collect(maps.Keys(c.Response.Headers)))
	want := c.Response.Raw
	if len(c.Response.JSON) > 0 {
		var b bytes.Buffer
		if err := json.Compact(&b, c.Response.JSON); err != nil {
			t.Fatal(err)
		}
		want = b.String()
	}
	sameShape(t, got.body, want)
}

// ending returns the captured body with a prompt whose answer ends as the
// captured one did, and with other hand-off parameters if they are given.
func (c vllmCapture) ending(t *testing.T, params map[string]any) body {
	t.Helper()
	stops := strings.Contains(c.Response.Raw, `"finish_reason":"stop"`) || bytes.Contains(c.Response.JSON, []byte(`"finish_reason": "stop"`))
	var b body
	if err := json.Unmarshal(c.Request, &b); err != nil {
		t.Fatal(err)
	}
	// Our answers end after 8 to 31 tokens.
	b["max_tokens"] = map[bool]int{true: 40, false: 6}[stops]
	if _, forced := b["tool_choice"].(map[string]any); forced {
		b["max_tokens"] = 1 // one piece of arguments, as captured
	}
	if params != nil {
		b["kv_transfer_params"] = params
	}
	for i := range 200 {
		addToPrompt(b, strings.Repeat("!", i))
		raw, _ := json.Marshal(b)
		r, err := parse(c.path(), raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, s := r.length(r.prompts[0].identity(), 2048); s == stops {
			return b
		}
	}
	t.Fatal("no prompt ends as the captured one did")
	return nil
}

func addToPrompt(b body, s string) {
	if text, ok := b["prompt"].(string); ok {
		b["prompt"] = text + s
		return
	}
	m := b["messages"].([]any)[0].(map[string]any)
	m["content"] = m["content"].(string) + s
}

func newVLLMPair(t *testing.T, change func(*Config)) *pair {
	t.Helper()
	return newPair(t, VLLMNixl, func(c *Config) {
		c.Model, c.BlockSize, c.KVTokens, c.ContextLength, c.NoCacheReport = "smollm2", 32, 23296, 2048, true
		if change != nil {
			change(c)
		}
	})
}

func TestVLLMHandsOverAsCaptured(t *testing.T) {
	p := newVLLMPair(t, nil)
	for _, name := range []string{"h1", "vi_chat_stream", "vi_tools_forced", "vi_tools_auto"} {
		t.Run(name, func(t *testing.T) {
			decode := readVLLM(t, name+"_decode")
			prefill := readVLLM(t, name+"_prefill")
			b := decode.ending(t, nil)
			leg := body{}
			if err := json.Unmarshal(prefill.Request, &leg); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"prompt", "messages"} {
				if b[key] != nil {
					leg[key] = b[key]
				}
			}
			answer := send(p.prefill, prefill.path(), leg)
			prefill.compare(t, answer)
			var told struct {
				Params map[string]any `json:"kv_transfer_params"`
			}
			if err := json.Unmarshal([]byte(answer.body), &told); err != nil {
				t.Fatal(err)
			}
			b["kv_transfer_params"] = told.Params
			decode.compare(t, send(p.decode, decode.path(), b))
		})
	}
	if v := append(p.prefill.Violations(), p.decode.Violations()...); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
	p.atRest()
}

func TestVLLMPrefillLegsAsCaptured(t *testing.T) {
	p := newVLLMPair(t, func(c *Config) { c.Lease = 50 * time.Millisecond })
	for _, name := range []string{"prefill_n2", "prefill_prompt_list", "prefill_streamed"} {
		t.Run(name, func(t *testing.T) {
			c := readVLLM(t, name)
			c.compare(t, send(p.prefill, c.path(), string(c.Request)))
		})
	}
	p.atRest()
}

func TestVLLMDecodeAloneAsCaptured(t *testing.T) {
	for _, name := range []string{
		"ii_block_ids_null_decode", "ii_engine_id_wrong_decode", "ii_missing_remote_request_id_decode",
		"ii_port_closed_decode", "iii_decode_prefill_dead", "iii_decode_prefill_dead_stream", "rc_port_closed_decode",
	} {
		t.Run(name, func(t *testing.T) {
			p := newVLLMPair(t, func(c *Config) {
				if name == "rc_port_closed_decode" {
					c.LoadFailure = "recompute"
				}
			})
			c := readVLLM(t, name)
			// What is alive in the test must not be taken for the captured engine.
			b := body{}
			if err := json.Unmarshal(c.Request, &b); err != nil {
				t.Fatal(err)
			}
			params := b["kv_transfer_params"].(map[string]any)
			params["remote_port"] = 1
			if name == "ii_engine_id_wrong_decode" {
				params["remote_port"] = p.prefill.BootstrapPort()
			}
			if name == "rc_port_closed_decode" {
				b = c.ending(t, params)
			}
			waiting := later(func() answer { return send(p.decode, c.path(), b) })
			if c.Response.Exception != "" {
				eventually(t, "request hangs", func() bool { return slices.Contains(p.decode.Violations(), NoRequestID) })
				_ = p.stopDecode()
			}
			c.compare(t, <-waiting)
		})
	}
}

func TestVLLMReplayAsCaptured(t *testing.T) {
	p := newVLLMPair(t, nil)
	c := readVLLM(t, "i3_replay_after_overwrite")
	b := c.ending(t, nil)
	_, params := p.vllmPrefill(c.path(), b)
	b["kv_transfer_params"] = params
	send(p.decode, c.path(), b).must(t)
	c.compare(t, send(p.decode, c.path(), b))
}

func TestPlainVLLMAsCaptured(t *testing.T) {
	p := newVLLMPair(t, nil)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata/captures/vllm", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var models bytes.Buffer
	if err := json.Compact(&models, []byte(read("plain_models.json"))); err != nil {
		t.Fatal(err)
	}
	sameShape(t, get(p.decode, "/v1/models").must(t).body, models.String())
	sameShape(t, get(p.decode, "/version").must(t).body, read("plain_version.json"))
	sameShape(t, send(p.decode, "/tokenize", body{"prompt": "what is this"}).must(t).body, read("plain_tokenize.json"))
	completion, _, _ := strings.Cut(read("plain_completion.json"), "\n")
	got := send(p.decode, pathCompletions, body{"prompt": "The primary colors are", "max_tokens": 24, "ignore_eos": true})
	sameShape(t, got.must(t).body, completion)

	stream, _, _ := strings.Cut(read("plain_chat_stream.txt"), "\n\n\n")
	// That server had no tool parser; those with one end with an empty delta.
	stream = strings.Replace(stream, `"delta":{"content":""},"logprobs":null,"finish_reason":"stop"`, `"delta":{},"logprobs":null,"finish_reason":"stop"`, 1)
	got = send(p.decode, pathChat, body{
		"messages": []any{body{"role": "user", "content": "hello"}}, "max_tokens": 100,
		"stream": true, "stream_options": body{"include_usage": true},
	})
	sameShape(t, got.must(t).body, stream+"\n\n")
}

// What no capture shows, as the real engines' source has it (SGLang 0.5.23,
// vLLM 0.32.0): streams of completions and of tool calls, usage with cached
// tokens.
func TestAnswersAsInTheSource(t *testing.T) {
	tools := body{
		"messages": []any{body{"role": "user", "content": "hello"}}, "tool_choice": "required", "max_tokens": 40,
		"tools": []any{body{"type": "function", "function": body{"name": "f", "parameters": body{"properties": body{"x": body{}}}}}},
	}
	usage := body{"stream": true, "stream_options": body{"include_usage": true}}
	completion := body{"prompt": "abc", "max_tokens": 3, "stream": true}
	tests := []struct {
		name, dialect, path string
		b                   body
		parts               []string
	}{
		{"SGLang completion", SGLang, pathCompletions, completion.with(usage), []string{
			`"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}`,
			`"logprobs":null,"finish_reason":"length","matched_stop":null}],"usage":null}`,
			`"choices":[],"usage":{"prompt_tokens":1,"total_tokens":4,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"reasoning_tokens":0}}`,
		}},
		{"SGLang completion that stops", SGLang, pathCompletions, completion.with(body{"max_tokens": 40}), []string{
			`"text":"","logprobs":null,"finish_reason":"stop","matched_stop":2}],"usage":null}` + "\n\ndata: [DONE]",
		}},
		{"SGLang tools", SGLang, pathChat, tools.with(usage), []string{
			`"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":"call_`,
			`"tool_calls":[{"id":null,"index":0,"type":"function","function":{"name":null,"arguments":"{\"x\": \"`,
			`"delta":{"reasoning_content":null},"logprobs":null,"finish_reason":"tool_calls","matched_stop":2}]}`,
		}},
		{"vLLM completion", VLLMNixl, pathCompletions, completion, []string{
			`"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`,
			`"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}],"system_fingerprint":"vllm-`,
		}},
		{"vLLM completion with usage", VLLMNixl, pathCompletions, completion.with(usage), []string{
			`"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`,
			`"choices":[],"usage":{"prompt_tokens":1,"total_tokens":4,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":1}},"system_fingerprint":"vllm-`,
		}},
		{"vLLM chat", VLLMNixl, pathCompletions, completion.with(body{"stream": false}), []string{
			`"prompt_tokens_details":{"cached_tokens":1,"created_cache_tokens":null,"multimodal_tokens":null},"completion_tokens_details":null}`,
		}},
		{"vLLM tools", VLLMNixl, pathChat, tools.with(body{"stream": true}), []string{
			`"finish_reason":"tool_calls","stop_reason":null,"token_ids":null}],"system_fingerprint":"vllm-`,
		}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, tt.dialect, nil)
			var got answer
			if tt.dialect == SGLang {
				_, got = p.sglang(tt.path, tt.b, uint64(i))
			} else {
				_, got = p.vllm(tt.path, tt.b)
			}
			for _, part := range tt.parts {
				if !strings.Contains(got.must(t).body, part) {
					t.Errorf("answer lacks %s:\n%s", part, got.body)
				}
			}
		})
	}
}
