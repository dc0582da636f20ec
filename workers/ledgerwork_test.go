package workers

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
)

// publicTrace is the part of a public trace that package bench has.
var publicTrace = sync.OnceValues(func() ([]*modelRequest, error) {
	data, err := os.ReadFile("../bench/data/conversation.jsonl")
	if err != nil {
		return nil, err
	}
	var reqs []*modelRequest
	for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
		var q struct {
			InputLength  int `json:"input_length"`
			OutputLength int `json:"output_length"`
		}
		if err := dec.Decode(&q); err != nil {
			return nil, err
		}
		reqs = append(reqs, &modelRequest{prompt: q.InputLength, answer: q.OutputLength})
	}
	return reqs, nil
})

// traced returns the requests of the public trace.
func traced(t *testing.T) []*modelRequest {
	t.Helper()
	reqs, err := publicTrace()
	if err != nil {
		t.Fatal(err)
	}
	return reqs
}

// chat returns n short prompts with answers whose lengths are as those of the
// public trace, times scale: what they will need is what is not known of them.
func chat(t *testing.T, n int, scale float64, limit int, seed uint64) []*modelRequest {
	t.Helper()
	all := traced(t)
	dice := rand.New(rand.NewPCG(seed, 3))
	reqs := make([]*modelRequest, n)
	for i := range reqs {
		like := all[dice.IntN(len(all))]
		reqs[i] = &modelRequest{prompt: 100 + dice.IntN(200), answer: max(int(float64(like.answer)*scale), 1), limit: limit}
		if limit > 0 {
			reqs[i].answer = min(reqs[i].answer, limit)
		}
	}
	return reqs
}

// documents returns n prompts and answers of the public trace.
func documents(t *testing.T, n, limit int, seed uint64) []*modelRequest {
	t.Helper()
	all := traced(t)
	dice := rand.New(rand.NewPCG(seed, 4))
	reqs := make([]*modelRequest, n)
	for i := range reqs {
		like := all[dice.IntN(len(all))]
		reqs[i] = &modelRequest{prompt: min(like.prompt, 60000), answer: like.answer, limit: limit}
	}
	return reqs
}

func clones(reqs []*modelRequest) []*modelRequest {
	out := make([]*modelRequest, len(reqs))
	for i, q := range reqs {
		c := *q
		out[i] = &c
	}
	return out
}

func spaced(reqs []*modelRequest, gap float64) []*modelRequest {
	for i, q := range reqs {
		q.at = float64(i) * gap
	}
	return reqs
}

// blocksFor returns how many blocks an engine has that holds n of reqs.
func blocksFor(reqs []*modelRequest, n, block int) int {
	sum := 0
	for _, q := range reqs {
		sum += q.prompt + q.answer
	}
	return sum * n / len(reqs) / block
}
