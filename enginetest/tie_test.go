package enginetest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// tieGap is how far apart, in nats, an engine may see two tokens that it takes
// for one another. SGLang computes in bfloat16, whose steps near the logits of
// a likely token are 0.125, and other shapes (a batch, a prefix from the cache)
// round otherwise.
const tieGap = 0.25

// tie reports the gap between the tokens at which got leaves what one engine
// says alone. It is an error if that engine has no such token among its first
// five, sees it further off than tieGap, or goes on otherwise from there: then
// got is wrong, or of another request.
func (p *pair) tie(body object, got string) (gap float64, err error) {
	r := post(p.plain.url, completions, with(body, object{"logprobs": 5}))
	a, err := read(r)
	if err != nil {
		return 0, err
	}
	var told struct {
		Choices []struct {
			Logprobs struct {
				Tokens []string
				Top    []map[string]float64 `json:"top_logprobs"`
			}
		}
	}
	if err := json.Unmarshal([]byte(r.body), &told); err != nil {
		return 0, err
	}
	said := told.Choices[0].Logprobs
	if a.texts[0] == got {
		return 0, nil // alone it says either, by what its cache has
	}
	before := ""
	for i, token := range said.Tokens {
		if strings.HasPrefix(got, before+token) {
			before += token
			continue
		}
		for other, logprob := range said.Top[i] {
			if other == "" || !strings.HasPrefix(got, before+other) {
				continue
			}
			gap = said.Top[i][token] - logprob
			if gap > tieGap {
				return gap, fmt.Errorf("%q and %q are %.3f apart", token, other, gap)
			}
			return gap, p.goesOn(body, before+other, got, len(said.Tokens)-i-1)
		}
		return 0, fmt.Errorf("no token like it beside %q: %v", token, said.Top[i])
	}
	return 0, fmt.Errorf("it is longer than %q", a.texts)
}

// goesOn wants the engine to end got as it began.
func (p *pair) goesOn(body object, begun, got string, left int) error {
	if left == 0 {
		return nil
	}
	prompt, _ := body["prompt"].(string)
	a, err := read(post(p.plain.url, completions, with(body, object{"prompt": prompt + begun, "max_tokens": left})))
	if err == nil && begun+a.texts[0] != got {
		err = fmt.Errorf("from %q it goes on with %q", begun, a.texts)
	}
	return err
}
