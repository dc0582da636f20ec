package transfer

import (
	"bytes"
	"testing"
)

// TestUsageNeverInventsAZero: what an engine does not say is -1 (I8).
func TestUsageNeverInventsAZero(t *testing.T) {
	for name, c := range map[string]struct {
		e    Endpoint
		data string
		want Usage
	}{
		"a comment":                {Chat, ": ping\n\n", Usage{-1, -1, -1}},
		"the end of a stream":      {Chat, "data: [DONE]\n\n", Usage{-1, -1, -1}},
		"nothing":                  {Chat, ``, Usage{-1, -1, -1}},
		"no usage":                 {Chat, `{"choices":[]}`, Usage{-1, -1, -1}},
		"usage is null":            {Chat, `{"usage":null}`, Usage{-1, -1, -1}},
		"no report of the cache":   {Chat, `{"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":null}}`, Usage{9, 1, -1}},
		"SGLang's report":          {Chat, `{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens":1}}`, Usage{9, 1, 4}},
		"nothing cached":           {Chat, `{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}`, Usage{9, -1, 0}},
		"details without the one":  {Chat, `{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"image_tokens":0}}}`, Usage{9, -1, -1}},
		"vLLM's hand-off":          {Completions, `{"kv_transfer_params":{"remote_prefill_cached_tokens":32},"usage":{"prompt_tokens":37,"prompt_tokens_details":{"cached_tokens":5}}}`, Usage{37, -1, 32}},
		"vLLM's hand-off, null":    {Completions, `{"usage":{"prompt_tokens":37},"kv_transfer_params":{"remote_prefill_cached_tokens":null}}`, Usage{37, -1, -1}},
		"generate":                 {Generate, `{"text":"a","meta_info":{"prompt_tokens":5,"completion_tokens":1,"cached_tokens":4}}`, Usage{5, 1, 4}},
		"a batch":                  {Generate, `[{"meta_info":{"prompt_tokens":5,"completion_tokens":1,"cached_tokens":4}},{"meta_info":{"prompt_tokens":3,"completion_tokens":2,"cached_tokens":0}}]`, Usage{8, 3, 4}},
		"a batch with an unknown":  {Generate, `[{"meta_info":{"prompt_tokens":5,"cached_tokens":4}},{"meta_info":{"prompt_tokens":3}}]`, Usage{8, -1, -1}},
		"an empty batch":           {Generate, `[]`, Usage{-1, -1, -1}},
		"a batch of no objects":    {Generate, `[1]`, Usage{-1, -1, -1}},
		"the last event":           {Chat, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":37,\"completion_tokens\":8}}\n\n", Usage{37, 8, -1}},
		"usage inside a text":      {Chat, `{"choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":1}}"}}]}`, Usage{-1, -1, -1}},
		"cut":                      {Chat, `{"usage":{"prompt_tokens":9},"x":`, Usage{-1, -1, -1}},
		"counts that are no count": {Chat, `{"usage":{"prompt_tokens":-1,"completion_tokens":1.5}}`, Usage{-1, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(c.data)
			if !bytes.HasPrefix(data, []byte("data:")) {
				if out, _ := Whole(c.e, data); out.Usage != c.want {
					t.Errorf("Whole(%s) has %+v, want %+v", c.data, out.Usage, c.want)
				}
			}
			if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("[")) {
				return // no event is a list
			}
			if ev := Classify(c.e, data); ev.Usage != c.want {
				t.Errorf("Classify(%s) has %+v, want %+v", c.data, ev.Usage, c.want)
			}
		})
	}
}
