package transfer

import "fmt"

// MaxBatch is how many prompts one request may carry, because each takes a
// room, an id and an answer of its own.
const MaxBatch = 4096

// keySamplingN is /generate's n, in the words of an error.
const keySamplingN = "sampling_params.n"

// noteBatch counts the prompts of a value that may be one or a list of them.
// A list of token ids is one prompt. An empty list is left to the engine, which
// refuses it in its own words.
func (r *Request) noteBatch(k key, m *members) {
	if k == keyInputIDs && r.endpoint == Chat || r.body[m.start] != '[' {
		return
	}
	s := scanner{b: r.body}
	first := s.space(m.start + 1)
	if c := r.body[first]; c == ']' || isNumber(c) {
		return
	}
	if k == keyInputEmbeds && !r.isList(first, 2) {
		return // one prompt is a list of vectors
	}
	n := 0
	for e := s.array(m.start, 1); e.more(); {
		n++
	}
	r.batch = max(r.batch, n)
}

// isList tells whether depth brackets open at i, one inside the other.
func (r *Request) isList(i, depth int) bool {
	s := scanner{b: r.body}
	for range depth {
		if r.body[i] != '[' {
			return false
		}
		i = s.space(i + 1)
	}
	return true
}

// noteSampling reads what we need of /generate's sampling_params, which may be
// a list with an object for each prompt.
func (r *Request) noteSampling(m *members) *BadRequest {
	s := scanner{b: r.body}
	if r.body[m.start] == '{' {
		return r.noteSamplingObject(s.object(m.start, 1))
	}
	for e := s.array(m.start, 1); e.more(); {
		if r.body[e.start] != '{' {
			continue
		}
		if bad := r.noteSamplingObject(s.object(e.start, 2)); bad != nil {
			return bad
		}
	}
	return nil
}

func (r *Request) noteSamplingObject(m members) *BadRequest {
	var buf [maxKeyLen]byte
	var n, limit bool // seen
	for m.more() {
		name := m.name(r.body, &buf)
		null := m.value()[0] == 'n'
		switch {
		case string(name) == "n":
			if n {
				return duplicate(keySamplingN, m.key)
			}
			n = true
			if bad := r.noteN(m.member, keySamplingN); bad != nil && !null {
				return bad
			}
		case string(name) == "max_new_tokens":
			if limit {
				return duplicate("sampling_params.max_new_tokens", m.key)
			}
			limit = true
			if !null {
				r.newLimit = m.place()
			}
		}
	}
	return nil
}

// Batch returns the number of prompts in the request's list of prompts, or 0 if
// it has one prompt and no list.
func (r *Request) Batch() int { return r.batch }

// tooMany refuses a batch that is too large.
func (r *Request) tooMany() *BadRequest {
	if r.batch <= MaxBatch {
		return nil
	}
	return &BadRequest{
		Message: fmt.Sprintf("%d prompts in one request are too many, at most %d are allowed", r.batch, MaxBatch),
		Param:   r.promptName(),
		Code:    CodeBatch,
	}
}

// promptName is the key that holds the prompts.
func (r *Request) promptName() string {
	switch {
	case r.endpoint == Chat:
		return "messages"
	case r.endpoint == Completions:
		return "prompt"
	case r.value(keyText) != nil:
		return "text"
	case r.value(keyInputEmbeds) != nil:
		return "input_embeds"
	}
	return "input_ids"
}
