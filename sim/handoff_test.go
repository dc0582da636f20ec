package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAnswerFollowsFromPrompt(t *testing.T) {
	chat := body{"messages": []any{body{"role": "user", "content": "What is \"KV\"?\n"}}}
	tests := []struct {
		name, path string
		b          body
	}{
		{"chat", pathChat, chat},
		{"chat with a limit", pathChat, chat.with(body{"max_tokens": 5})},
		{"chat with the newer limit", pathChat, chat.with(body{"max_completion_tokens": 7})},
		{"chat that ignores the end", pathChat, chat.with(body{"max_tokens": 100, "ignore_eos": true})},
		{"chat of parts", pathChat, body{"messages": []any{body{"role": "user", "content": []any{body{"type": "text", "text": "hi"}}}}}},
		{"streamed chat", pathChat, chat.with(body{"stream": true, "stream_options": body{"include_usage": true}})},
		{"completion", pathCompletions, body{"prompt": "Once upon a time", "max_tokens": 12}},
		{"completion of token ids", pathCompletions, body{"prompt": []int{5, 6, 7}, "max_tokens": 12}},
		{"completion of a long text", pathCompletions, body{"prompt": strings.Repeat("long ", 5000), "max_tokens": 12}},
		{"completion of letters from elsewhere", pathCompletions, body{"prompt": "Grüße, 世界", "max_tokens": 12}},
		{"streamed completion", pathCompletions, body{"prompt": "Once", "stream": true, "max_tokens": 30}},
		{"completion with echo", pathCompletions, body{"prompt": "Once", "echo": true}},
		{"salted", pathCompletions, body{"prompt": "Once", "cache_salt": "pepper"}},
	}
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, nil)
		for i, tt := range tests {
			t.Run(dialect+" "+tt.name, func(t *testing.T) {
				var got answer
				if dialect == SGLang {
					_, got = p.sglang(tt.path, tt.b, uint64(i))
				} else {
					_, got = p.vllm(tt.path, tt.b)
				}
				p.mustSay(t, got, tt.path, tt.b)
			})
		}
		p.atRest()
	}
}

// mustSay checks that an answer is what Expect says.
func (p *pair) mustSay(t *testing.T, got answer, path string, b body) {
	t.Helper()
	raw, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Expect(path, raw)
	if err != nil {
		t.Fatal(err)
	}
	if text := got.must(t).text(); text != strings.Join(want, "") {
		t.Errorf("answer is %q, want %q", text, want)
	}
}

func TestGenerate(t *testing.T) {
	p := newPair(t, SGLang, nil)
	sampling := body{"max_new_tokens": 9, "ignore_eos": true}
	for i, b := range []body{
		{"text": "The capital of France is", "sampling_params": sampling},
		{"input_ids": []int{1, 2, 3}, "sampling_params": sampling},
		{"text": "The capital of France is", "sampling_params": sampling, "stream": true},
		{"text": "The capital", "sampling_params": body{}},
	} {
		_, got := p.sglang(pathGenerate, b, uint64(i))
		p.mustSay(t, got, pathGenerate, b)
	}
	if got := Text("The capital of France is", 9); len(strings.Fields(got)) != 9 {
		t.Errorf("Text(..., 9) = %q, want 9 words", got)
	}
	p.atRest()
}

func TestBatchesAnswerEachPrompt(t *testing.T) {
	p := newPair(t, SGLang, nil)
	lists := func(rooms ...uint64) body {
		b := body{"bootstrap_host": []string{}, "bootstrap_port": []int{}, "bootstrap_room": rooms}
		for range rooms {
			b["bootstrap_host"] = append(b["bootstrap_host"].([]string), "127.0.0.1")
			b["bootstrap_port"] = append(b["bootstrap_port"].([]int), p.prefill.BootstrapPort())
		}
		return b
	}
	for _, tt := range []struct {
		path string
		b    body
	}{
		{pathCompletions, body{"prompt": []string{"one", "two", "three"}}},
		{pathCompletions, body{"prompt": [][]int{{1, 2}, {3}, {4, 5}}, "stream": true}},
		{pathGenerate, body{"text": []string{"one", "two", "three"}}},
		{pathGenerate, body{"input_ids": [][]int{{1}, {2}, {3}}, "stream": true}},
	} {
		b := tt.b.with(lists(11, 1<<62, 7)).with(body{"rid": []string{"aa", "bb", "cc"}})
		first := later(func() answer { return send(p.prefill, tt.path, b) })
		got := send(p.decode, tt.path, b).must(t)
		(<-first).must(t)
		raw, _ := json.Marshal(tt.b)
		want, err := Expect(tt.path, raw)
		if err != nil || len(want) != 3 {
			t.Fatal(want, err)
		}
		for _, w := range want {
			if !strings.Contains(strings.ReplaceAll(got.body, `"},`, ""), w) && !strings.Contains(got.text(), w) {
				t.Errorf("%s: %q is not in %s", tt.path, w, got.body)
			}
		}
	}
	p.clean()
	p.atRest()
}

// clean checks that no violation was counted.
func (p *pair) clean() {
	p.t.Helper()
	if v := append(p.prefill.Violations(), p.decode.Violations()...); len(v) > 0 {
		p.t.Errorf("violations: %v", v)
	}
}

func TestLateLegsMeet(t *testing.T) {
	p := newPair(t, SGLang, nil)
	for i, order := range [][2]*Engine{{p.prefill, p.decode}, {p.decode, p.prefill}} {
		b := body{"prompt": "late"}.with(p.handOffKeys(uint64(i)))
		first := later(func() answer { return send(order[0], pathCompletions, b) })
		eventually(t, "the first leg waits", func() bool {
			return p.prefill.rooms.waiting()+p.decode.Stats().Transferring > 0
		})
		send(order[1], pathCompletions, b).must(t)
		(<-first).must(t)
	}
	p.clean()
	p.atRest()
}

func TestManyAtOnce(t *testing.T) {
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, func(c *Config) {
			c.KVTokens, c.MaxRunning, c.BootstrapTimeout, c.WaitingTimeout = 128*40, 16, time.Minute, time.Minute
		})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				b := body{"prompt": fmt.Sprintf("%d %s", i, strings.Repeat("x", i*20)), "max_tokens": 20, "stream": i%2 == 0}
				var got answer
				if dialect == SGLang {
					_, got = p.sglang(pathCompletions, b, uint64(i))
				} else {
					_, got = p.vllm(pathCompletions, b)
				}
				p.mustSay(t, got, pathCompletions, b)
			})
		}
		wg.Wait()
		p.clean()
		p.atRest()
		if st := p.decode.Stats(); st.Finished != 100 || st.Transfers != 100 {
			t.Errorf("%s decode finished %d by %d transfers, want 100", dialect, st.Finished, st.Transfers)
		}
	}
}

func TestPrefixIsFound(t *testing.T) {
	long := strings.Repeat("shared words ", 100) // 1300 bytes, 325 tokens
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, nil)
		run := func(room uint64, b body) (prefill, decode answer) {
			if dialect == SGLang {
				return p.sglang(pathCompletions, b, room)
			}
			return p.vllm(pathCompletions, b)
		}
		first, _ := run(1, body{"prompt": long})
		second, _ := run(2, body{"prompt": long + "and more"})
		short, _ := run(3, body{"prompt": "shared words"})
		salted, _ := run(4, body{"prompt": long, "cache_salt": "mine"})
		for want, got := range map[int][]answer{0: {first, short, salted}, 256: {second}} {
			for _, a := range got {
				if n := cachedTokens(t, a); n != want {
					t.Errorf("%s: cached tokens %d, want %d: %s", dialect, n, want, a.body)
				}
			}
		}
		p.atRest()
		if send(p.prefill, "/flush_cache", "{}"); dialect == SGLang && p.prefill.Stats().CachedBlocks != 0 {
			t.Error("flush_cache leaves blocks")
		}
	}
}

// cachedTokens returns what usage says of them.
func cachedTokens(t *testing.T, a answer) int {
	t.Helper()
	var told struct {
		Usage struct {
			Details *struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(a.must(t).body), &told); err != nil {
		t.Fatal(err)
	}
	if told.Usage.Details == nil {
		return 0
	}
	return told.Usage.Details.Cached
}

func TestProofOfHandOver(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	p.vllm(pathCompletions, body{"prompt": strings.Repeat("abcd", 300)})
	for line, e := range map[string]*Engine{
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="sim-model",source="external_kv_transfer"} 300.0`: p.decode,
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="sim-model",source="local_compute"} 0.0`:          p.decode,
		`vllm:nixl_bytes_transferred_sum{engine="0",model_name="sim-model"} 6.912e+06`:                              p.decode,
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="sim-model",source="local_compute"} 300.0`:        p.prefill,
		`vllm:kv_cache_usage_perc{engine="0",model_name="sim-model"} 0.0`:                                           p.prefill,
	} {
		if page := get(e, "/metrics").must(t).body; !strings.Contains(page, line+"\n") {
			t.Errorf("%s's metrics lack %s", e.cfg.Role, line)
		}
	}
}

func TestLogprobsAndEcho(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	b := body{"prompt": "abcdefgh", "max_tokens": 1, "echo": true, "prompt_logprobs": 1, "logprobs": 2, "kv_transfer_params": body{"do_remote_decode": true}}
	got := send(p.prefill, pathCompletions, b).must(t)
	for _, part := range []string{`"text":"abcdefgh`, `"prompt_logprobs":[null,{"`, `"token_logprobs":[-`, `"text_offset":[8]`} {
		if !strings.Contains(got.body, part) {
			t.Errorf("vLLM's prefill answer lacks %s: %s", part, got.body)
		}
	}
	s := newPair(t, SGLang, nil)
	prefill, decode := s.sglang(pathGenerate, body{"input_ids": []int{7, 8}, "return_logprob": true, "logprob_start_len": 0}, 5)
	if !strings.Contains(prefill.body, `"input_token_logprobs":[[null,7,null],[-`) {
		t.Errorf("SGLang's prefill answer lacks the prompt's logprobs: %s", prefill.body)
	}
	if !strings.Contains(decode.body, `"input_token_logprobs":[],"output_token_logprobs":[[-`) {
		t.Errorf("SGLang's decode answer has wrong logprobs: %s", decode.body)
	}
}

func TestToolCalls(t *testing.T) {
	b := body{
		"messages":    []any{body{"role": "user", "content": "weather?"}},
		"tool_choice": "required",
		"tools": []any{body{"type": "function", "function": body{
			"name": "get_weather", "parameters": body{"type": "object", "properties": body{"city": body{"type": "string"}}},
		}}},
	}
	raw, _ := json.Marshal(b)
	want, err := Expect(pathChat, raw)
	if err != nil {
		t.Fatal(err)
	}
	var arguments struct{ City string }
	if err := json.Unmarshal([]byte(want[0]), &arguments); err != nil || arguments.City == "" {
		t.Fatalf("arguments %q are not what the tool takes: %v", want[0], err)
	}
	quoted, _ := json.Marshal(want[0])
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, nil)
		var got answer
		if dialect == SGLang {
			_, got = p.sglang(pathChat, b, 1)
		} else {
			_, got = p.vllm(pathChat, b)
		}
		for _, part := range []string{`"name":"get_weather","arguments":` + string(quoted), `"content":null`, `"finish_reason":"tool_calls"`} {
			if !strings.Contains(got.must(t).body, part) {
				t.Errorf("%s's answer lacks %s: %s", dialect, part, got.body)
			}
		}
	}
}
