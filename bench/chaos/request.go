package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"pdrouter/sim"
)

// The endpoints that requests go to.
const (
	pathChat        = "/v1/chat/completions"
	pathCompletions = "/v1/completions"
	pathGenerate    = "/generate"
)

// A request is one that a client sends, and how the client behaves.
type request struct {
	path, body string
	stream     bool

	refused string        // code of the error that it must get before any engine is touched
	leaves  time.Duration // after which the client leaves; 0: it stays
	slow    time.Duration // pause after each few bytes read; 0: none
	cut     bool          // the client leaves amid its own body
}

// good reports whether r is one that engines which are well answer with 200.
func (r request) good() bool { return r.refused == "" && r.leaves == 0 && !r.cut }

// String shows a request with no more of its body than is of use to a reader.
func (r request) String() string {
	body := r.body
	if len(body) > 300 {
		body = body[:150] + " ... " + body[len(body)-150:]
	}
	s := "POST " + r.path + " " + body
	if r.leaves > 0 {
		s += ", leaves after " + r.leaves.String()
	}
	if r.slow > 0 {
		s += ", reads slowly"
	}
	return s
}

// random returns the random numbers of one part of a run.
func random(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }

// A requester makes requests. The same random numbers make the same ones.
type requester struct {
	*rand.Rand
	dialect string
}

// oneIn is true one time in n.
func (r requester) oneIn(n int) bool { return r.IntN(n) == 0 }

// any returns a request of any client.
func (r requester) any() request {
	req, body := r.wellMade()
	switch r.IntN(40) {
	case 0: // hand-off keys of the client's own, which must reach no engine
		body["bootstrap_room"], body["bootstrap_host"], body["rid"] = 7, "10.0.0.1", "mine"
		body["kv_transfer_params"] = map[string]any{"do_remote_prefill": true, "remote_block_ids": nil}
	case 1:
		if req.refused == "" && req.path != pathGenerate {
			body["n"], req.refused = 2, "unsupported_n"
		}
	}
	temper := r.IntN(20)
	if temper < 3 {
		req.leaves = time.Duration(1+r.IntN(300)) * time.Millisecond
		if r.oneIn(3) { // an answer of several seconds, if nobody tells the engine
			body["max_tokens"], body["ignore_eos"] = 3000, true
		}
	}
	req.body = jsonOf(body)
	switch temper {
	case 3:
		req.slow = time.Duration(2+r.IntN(20)) * time.Millisecond
	case 4:
		req.cut = r.oneIn(3)
	case 5:
		if req.refused == "" {
			req.body, req.refused = req.body[:r.IntN(len(req.body))], "json_parse_error"
		}
	}
	return req
}

// faultless returns a request that engines which are well answer with 200.
func (r requester) faultless() request {
	for {
		if req, body := r.wellMade(); req.refused == "" {
			req.body = jsonOf(body)
			return req
		}
	}
}

// misbehaved returns a request whose client is at fault for whatever comes.
func (r requester) misbehaved() request {
	for {
		if req := r.any(); !req.good() {
			return req
		}
	}
}

// wellMade returns a request and its body, still to be written out.
func (r requester) wellMade() (request, map[string]any) {
	body := map[string]any{"model": "sim-model"}
	req := request{stream: r.oneIn(2)}
	switch r.IntN(10) {
	case 0, 1, 2, 3, 4:
		req.path = pathChat
		body["messages"] = []any{
			map[string]any{"role": "system", "content": r.prompt()},
			map[string]any{"role": "user", "content": r.prompt()},
		}
	case 5, 6, 7, 8:
		req.path, body["prompt"] = pathCompletions, r.prompt()
	default:
		req.path, body["text"] = pathGenerate, r.prompt()
		delete(body, "model")
		if r.dialect == sim.VLLMNixl {
			req.refused = "not_implemented"
		}
	}
	r.limit(req, body)
	return req, body
}

// limit says how long the answer may be: mostly tens of tokens, now and then
// hundreds, so that there is a middle to be broken off in.
func (r requester) limit(req request, body map[string]any) {
	limit, name := body, "max_tokens"
	if req.path == pathGenerate {
		limit, name = map[string]any{}, "max_new_tokens"
		body["sampling_params"] = limit
	}
	limit[name] = 1 + r.IntN(40)
	if r.oneIn(8) {
		limit[name], limit["ignore_eos"] = 100+r.IntN(300), true
	}
	if req.stream {
		body["stream"] = true
		if req.path != pathGenerate && r.oneIn(3) {
			body["stream_options"] = map[string]any{"include_usage": true}
		}
	}
}

// prompt returns one of a few beginnings, or none, and an end of its own.
func (r requester) prompt() string {
	beginning := ""
	if !r.oneIn(3) {
		beginning = words(string(rune('a'+r.IntN(6))), 2500)
	}
	size := 10 + r.IntN(200)
	if r.oneIn(4) {
		size = r.IntN(4000)
	}
	return beginning + words(jsonOf(r.IntN(1_000_000)), size)
}

// words returns text of size bytes that follows from its name.
func words(name string, size int) string {
	return strings.Repeat(sim.Text(name, 40)+" ", size/200+1)[:size]
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("chaos: " + err.Error()) // maps of plain values
	}
	return string(b)
}
