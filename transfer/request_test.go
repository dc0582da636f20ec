package transfer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// parse is Parse of a body that is right.
func parse(t testing.TB, e Endpoint, body string) *Request {
	t.Helper()
	req, err := Parse(e, []byte(body))
	if err != nil {
		t.Fatalf("Parse(%s) = %v", body, err)
	}
	return req
}

func TestRequestSaysWhatTheClientWants(t *testing.T) {
	for name, c := range map[string]struct {
		e    Endpoint
		body string
		want string // model, stream, batch, limit, dropped
	}{
		"nothing":                       {Chat, `{}`, `"" false 0 - 0`},
		"null is absent":                {Chat, `{"model":null,"stream":null,"max_tokens":null}`, `"" false 0 - 0`},
		"a plain request":               {Chat, `{"model":"org/m:v1","stream":true,"max_tokens":7}`, `"org/m:v1" true 0 7 0`},
		"an escaped model":              {Chat, `{"model":"a\/\u00e9\ud83d\ude00\"\ud83d"}`, "\"a/é😀\\\"\ufffd\" false 0 - 0"},
		"escaped keys":                  {Chat, `{"mod\u0065l":"m","\u0073tream":true}`, `"m" true 0 - 0`},
		"the newer limit wins":          {Chat, `{"max_tokens":7,"max_completion_tokens":8}`, `"" false 0 8 0`},
		"a limit of 0":                  {Completions, `{"max_tokens":0}`, `"" false 0 0 0`},
		"a limit that is no integer":    {Chat, `{"max_tokens":1e3}`, `"" false 0 - 0`},
		"a limit that does not fit":     {Chat, `{"max_tokens":99999999999999999999}`, `"" false 0 - 0`},
		"hand-off keys":                 {Chat, `{"rid":1,"a":2,"rid":{},"kv_transfer_params":[]}`, `"" false 0 - 3`},
		"one text":                      {Completions, `{"prompt":"a"}`, `"" false 0 - 0`},
		"one list of ids":               {Completions, `{"prompt":[1,2]}`, `"" false 0 - 0`},
		"an empty list":                 {Completions, `{"prompt":[ ]}`, `"" false 0 - 0`},
		"one text in a list":            {Completions, `{"prompt":["a"]}`, `"" false 1 - 0`},
		"three texts":                   {Completions, `{"prompt":["a" , "b","[1,2"]}`, `"" false 3 - 0`},
		"two lists of ids":              {Completions, `{"prompt":[ [1,2],[3]]}`, `"" false 2 - 0`},
		"a chat's input_ids":            {Chat, `{"messages":[],"input_ids":[1,2]}`, `"" false 0 - 0`},
		"keys of another endpoint":      {Chat, `{"prompt":["a","b"],"text":["a"],"sampling_params":{"n":2}}`, `"" false 0 - 0`},
		"limits of generate":            {Generate, `{"text":"a","sampling_params":{"max_new_tokens":9},"max_tokens":1}`, `"" false 0 9 0`},
		"limits of a batch of generate": {Generate, `{"text":["a","b"],"sampling_params":[{"max_new_tokens":9},5,{"max_new_tokens":null}]}`, `"" false 2 9 0`},
		"texts of generate":             {Generate, `{"text":["a","b"],"model":"m","stream":true}`, `"m" true 2 - 0`},
		"ids of generate":               {Generate, `{"input_ids":[[1]]}`, `"" false 1 - 0`},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, c.e, c.body)
			limit := "-"
			if n, ok := r.MaxTokens(); ok {
				limit = fmt.Sprint(n)
			}
			if got := fmt.Sprintf("%q %v %d %s %d", r.Model(), r.Stream(), r.Batch(), limit, r.Dropped()); got != c.want {
				t.Errorf("Parse(%s) = %s, want %s", c.body, got, c.want)
			}
		})
	}
}

func TestWrongTypesNameTheKey(t *testing.T) {
	for body, param := range map[string]string{
		`{"model":1}`:                    "model",
		`{"stream":"true"}`:              "stream",
		`{"stream":1}`:                   "stream",
		`{"stream_options":true}`:        "stream_options",
		`{"n":"1"}`:                      "n",
		`{"n":1.0}`:                      "n",
		`{"n":1e0}`:                      "n",
		`{"n":99999999999999999999}`:     "n",
		`{"max_tokens":"7"}`:             "max_tokens",
		`{"max_completion_tokens":[]}`:   "max_completion_tokens",
		`{"messages":{}}`:                "messages",
		`{"tools":"x"}`:                  "tools",
		`{"echo":"yes"}`:                 "echo",
		`{"prompt_logprobs":true}`:       "prompt_logprobs",
		`{"vllm_xargs":[]}`:              "vllm_xargs",
		`{"prompt":{}}`:                  "prompt",
		`{"prompt":5}`:                   "prompt",
		`{"text":true}`:                  "text",
		`{"input_ids":"1"}`:              "input_ids",
		`{"sampling_params":1}`:          "sampling_params",
		`{"sampling_params":{"n":"2"}}`:  "sampling_params.n",
		`{"sampling_params":[{"n":[]}]}`: "sampling_params.n",
	} {
		e := Chat
		switch {
		case strings.Contains(body, "prompt\""):
			e = Completions
		case strings.Contains(body, "text") || strings.Contains(body, "input") || strings.Contains(body, "sampling"):
			e = Generate
		}
		_, err := Parse(e, []byte(body))
		bad, ok := errors.AsType[*BadRequest](err)
		if !ok || bad.Code != CodeType || bad.Param != param || !strings.Contains(bad.Message, param) {
			t.Errorf("Parse(%s) = %v, want a complaint about %s", body, err, param)
		}
	}
}

func TestDuplicatesOfKeysThatWeReadAreRefused(t *testing.T) {
	for body, param := range map[string]string{
		`{"model":"a","model":"a"}`:                                           "model",
		`{"stream":false,"x":{"stream":true},"stre\u0061m":null}`:             "stream",
		`{"prompt":"a","prompt":null}`:                                        "prompt",
		`{"min_tokens":1,"min_tokens":1}`:                                     "min_tokens",
		`{"sampling_params":{"n":1,"n":2}}`:                                   "sampling_params.n",
		`{"sampling_params":{"max_new_tokens":1,"max_new_tokens":2}}`:         "sampling_params.max_new_tokens",
		`{"sampling_params":{},"sampling_params":{}}`:                         "sampling_params",
		`{"cache_salt":"a","cache_salt":"b"}`:                                 "cache_salt",
		`{"return_logprob":1,"text":"a","text":"b"}`:                          "text",
		`{"vllm_xargs":{},"vllm_xargs":{"kv_transfer_params":"still there"}}`: "vllm_xargs",
	} {
		e := Completions
		if strings.Contains(body, "sampling") || strings.Contains(body, "text") {
			e = Generate
		}
		_, err := Parse(e, []byte(body))
		bad, ok := errors.AsType[*BadRequest](err)
		if !ok || bad.Code != CodeDuplicate || bad.Param != param {
			t.Errorf("Parse(%s) = %v, want a complaint about two %s", body, err, param)
		}
	}
}

// TestABodyOfNothingButHandOffKeysIsBounded: removing each takes memory of ours.
func TestABodyOfNothingButHandOffKeysIsBounded(t *testing.T) {
	body := func(n int) string { return "{" + strings.Repeat(`"rid":1,`, n-1) + `"rid":1}` }
	if r := parse(t, Chat, body(maxDrops)); r.Dropped() != maxDrops {
		t.Errorf("%d keys dropped, want %d", r.Dropped(), maxDrops)
	}
	xargs := `{"vllm_xargs":` + body(maxDrops+1) + `}`
	for _, body := range []string{body(maxDrops + 1), body(100_000), xargs} {
		if _, err := Parse(Chat, []byte(body)); err == nil {
			t.Errorf("Parse(%.40s...) succeeded", body)
		}
	}
}

func TestABatchIsBounded(t *testing.T) {
	batch := func(n int) *Request {
		return parse(t, Completions, `{"prompt":["a"`+strings.Repeat(`,"a"`, n-1)+`]}`)
	}
	if err := (SGLang{}).Check(batch(MaxBatch)); err != nil {
		t.Errorf("Check of %d prompts = %v", MaxBatch, err)
	}
	err := SGLang{}.Check(batch(MaxBatch + 1))
	if bad, ok := errors.AsType[*BadRequest](err); !ok || bad.Code != CodeBatch || bad.Param != "prompt" {
		t.Errorf("Check of %d prompts = %v, want %s", MaxBatch+1, err, CodeBatch)
	}
}

func TestABodyIsShorterThan2GiB(t *testing.T) {
	if bad := tooLong(math.MaxInt32); bad != nil {
		t.Errorf("tooLong(MaxInt32) = %v", bad)
	}
	if bad := tooLong(math.MaxInt32 + 1); bad == nil || bad.Code != CodeTooLong {
		t.Errorf("tooLong(MaxInt32+1) = %v, want %s", bad, CodeTooLong)
	}
}
