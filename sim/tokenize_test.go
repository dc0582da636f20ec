package sim

import "testing"

// TestTokens is about what the two engines answer to /tokenize and /detokenize,
// as their sources say.
func TestTokens(t *testing.T) {
	tests := []struct {
		name, dialect, path, body string
		status                    int
		want                      string
	}{
		{"a prompt on vLLM", VLLMNixl, "/tokenize", `{"model":"sim-model","prompt":"abcde"}`, 200, `{"count":2,"max_model_len":1000,"tokens":[1684234849,101],"token_strs":null}`},
		{"a prompt on SGLang", SGLang, "/tokenize", `{"prompt":"abcde"}`, 200, `{"tokens":[1684234849,101],"count":2,"max_model_len":1000}`},
		{"two prompts on SGLang", SGLang, "/v1/tokenize", `{"prompt":["a","abcde"]}`, 200, `{"tokens":[[97],[1684234849,101]],"count":[1,2],"max_model_len":1000}`},
		{"tokens on vLLM", VLLMNixl, "/detokenize", `{"tokens":[1684234849,101]}`, 200, `{"prompt":"abcde"}`},
		{"tokens on SGLang", SGLang, "/v1/detokenize", `{"tokens":[1684234849,101]}`, 200, `{"text":"abcde"}`},
		{"another model on vLLM", VLLMNixl, "/tokenize", `{"model":"x","prompt":"a"}`, 404, "{\"error\":{\"message\":\"The model `x` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"},
		{"no prompt on vLLM", VLLMNixl, "/tokenize", `{}`, 400, `{"error":{"message":"Field required: prompt","type":"BadRequestError","param":null,"code":400}}`},
		{"no prompt on SGLang", SGLang, "/tokenize", `{"messages":[{"role":"user","content":"a"}]}`, 400, `{"object":"error","message":"Field required: prompt","type":"BadRequestError","param":null,"code":400}`},
		{"no tokens on SGLang", SGLang, "/detokenize", `{}`, 400, `{"object":"error","message":"Field required: tokens","type":"BadRequestError","param":null,"code":400}`},
		{"the path that vLLM does not have", VLLMNixl, "/v1/tokenize", `{"prompt":"a"}`, 404, `{"detail":"Not Found"}`},
	}
	pairs := map[string]*pair{}
	for _, dialect := range []string{SGLang, VLLMNixl} {
		pairs[dialect] = newPair(t, dialect, func(c *Config) { c.ContextLength = 1000 })
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := send(pairs[tt.dialect].prefill, tt.path, tt.body)
			if got.status != tt.status || got.body != tt.want {
				t.Errorf("POST %s = %d %s, want %d %s", tt.path, got.status, got.body, tt.status, tt.want)
			}
		})
	}
	if got := get(pairs[SGLang].decode, "/tokenize"); got.status != 405 {
		t.Errorf("GET /tokenize = %d, want 405", got.status)
	}
}
