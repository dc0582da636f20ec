package sim

import (
	"encoding/json"
	"errors"
	"math"
)

// The endpoints that generate.
const (
	pathChat        = "/v1/chat/completions"
	pathCompletions = "/v1/completions"
	pathGenerate    = "/generate"
)

// A request is a decoded body.
type request struct {
	path    string
	model   string
	prompts []prompt
	batch   bool // the prompts came as a list

	stream, streamOptions, includeUsage bool

	maxTokens, maxCompletionTokens int // -1: not given
	minTokens                      int
	ignoreEOS                      bool
	n                              int
	temperature                    float64

	echo           bool
	promptLogprobs int  // vLLM; -1: not asked for
	logprobs       bool // of the answer
	topLogprobs    int
	logprobStart   int // SGLang's logprob_start_len; -1: none of the prompt
	tool           *tool

	rids       []string
	rooms      []json.RawMessage
	hosts      []string
	ports      []*int
	params     *kvParams // vLLM
	duplicates []string  // keys that came more than once
	salt       uint64    // of the cache
}

// A tool is the one that the answer must call.
type tool struct {
	name, argument string // argument is its first parameter's name
	named          bool   // by tool_choice itself
}

// kvParams is vLLM's hand-off object. A pointer tells null from a value.
type kvParams struct {
	DoRemoteDecode  bool            `json:"do_remote_decode"`
	DoRemotePrefill bool            `json:"do_remote_prefill"`
	RemoteBlockIDs  json.RawMessage `json:"remote_block_ids"`
	RemoteEngineID  *string         `json:"remote_engine_id"`
	RemoteRequestID *string         `json:"remote_request_id"`
	RemoteHost      *string         `json:"remote_host"`
	RemotePort      *int            `json:"remote_port"`
}

// check refuses what every engine refuses.
func (r *request) check(context int) error {
	if len(r.prompts) == 0 {
		return errors.New("prompt is missing")
	}
	if r.temperature < 0 || math.IsNaN(r.temperature) {
		return badTemperature(r.temperature)
	}
	if r.limit() > context {
		return tooManyTokens(r.limit(), context)
	}
	for _, p := range r.prompts {
		if len(p.tokens) >= context {
			return promptTooLong(len(p.tokens), context)
		}
	}
	return nil
}

// limit returns the largest number of tokens that the client asked for, -1 if
// it did not say.
func (r *request) limit() int {
	if r.path == pathChat && r.maxCompletionTokens >= 0 {
		return r.maxCompletionTokens
	}
	return r.maxTokens
}

// length returns how many tokens the answer to the prompt id has, room being
// what the context leaves, and whether the model ends it by itself.
func (r *request) length(id uint64, room int) (n int, stops bool) {
	limit := r.limit()
	if limit < 0 {
		limit = room
		if r.path == pathCompletions {
			limit = 16
		}
		if r.path == pathGenerate {
			limit = 128
		}
	}
	limit = min(limit, room)
	natural := max(naturalLength(id), r.minTokens)
	if r.ignoreEOS || natural >= limit {
		return max(limit, 0), false
	}
	return natural, true
}

// tokens returns the first n tokens of the answer to the prompt id: words, or
// the arguments of the tool that must be called, which take the words in.
func (r *request) tokens(id uint64, n int) []string {
	out := words(id, n)
	for i := range out {
		out[i] = r.token(id, i, n)
	}
	return out
}

// token returns token i of an answer of n tokens.
func (r *request) token(id uint64, i, n int) string {
	w := word(id, i)
	if r.tool == nil {
		return w
	}
	if i == 0 {
		w = `{"` + r.tool.argument + `": "` + w
	}
	if i == n-1 {
		w += `"}`
	}
	return w
}

// A kvRoom is a room as the body had it.
type kvRoom struct {
	number uint64
	float  bool
}

// room returns the room of prompt i. One room for a batch counts up.
func (r *request) room(i int) (kvRoom, bool) {
	if len(r.rooms) == 0 {
		return kvRoom{}, false
	}
	raw := r.rooms[min(i, len(r.rooms)-1)]
	if string(raw) == "null" {
		return kvRoom{}, false
	}
	var room kvRoom
	if err := json.Unmarshal(raw, &room.number); err != nil {
		var f float64
		if json.Unmarshal(raw, &f) != nil || f < 0 || f != math.Trunc(f) || f >= 1<<64 {
			return kvRoom{}, false
		}
		room = kvRoom{number: uint64(f), float: true}
	}
	if len(r.rooms) == 1 {
		room.number += uint64(i)
	}
	return room, true
}

// host returns the host of prompt i's bootstrap server.
func (r *request) host(i int) string {
	if len(r.hosts) == 0 {
		return ""
	}
	return r.hosts[min(i, len(r.hosts)-1)]
}

// port returns the port of prompt i's bootstrap server, else def.
func (r *request) port(i, def int) int {
	if len(r.ports) > 0 {
		if p := r.ports[min(i, len(r.ports)-1)]; p != nil {
			return *p
		}
	}
	return def
}

// rid returns the id that the body gives prompt i, if any.
func (r *request) rid(i int) string {
	switch {
	case len(r.rids) > i:
		return r.rids[i]
	case len(r.rids) == 1 && i > 0:
		return "" // one id for a batch is the first one's
	}
	return ""
}
