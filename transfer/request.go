package transfer

import (
	"fmt"
	"math"
)

// maxDrops is how many hand-off keys of a client are removed from one body.
// There are some twenty names, each of them once in an honest body.
const maxDrops = 256

// A Request is a client's request body with the places of the keys that we read
// or own. It is not changed after Parse, so that each attempt writes its legs
// from the same one. It keeps the body and copies nothing of it.
type Request struct {
	body     []byte
	endpoint Endpoint
	known    [keyHandoff]place               // by key; the zero place if absent
	also     [keyCount - keyHandoff - 1]span // of the keys behind keyHandoff; likewise
	open     int                             // behind the opening brace
	close    int                             // the closing brace
	lastEnd  int                             // behind the last value, or open
	long     longStrings
	batch    int
	drops    []place // hand-off keys of the client, in order
	newLimit place   // sampling_params.max_new_tokens
	several  string  // the key that asks for more than one answer a prompt, or ""
}

// maxBody is the length of the longest body, because of a place's int32.
const maxBody = math.MaxInt32

// A place is where a member of ours stands in the body, as in a member. There is
// one for each key in each Request, which this halves.
type place struct {
	prev, key, start, end, next int32
	last                        bool
}

// A span is a value in the body.
type span struct{ start, end int32 }

func (m *member) place() place {
	return place{
		prev: int32(m.prev), key: int32(m.key), start: int32(m.start), end: int32(m.end), next: int32(m.next),
		last: m.last,
	}
}

// Parse reads a request body, which it keeps. The error is a *BadRequest.
func Parse(e Endpoint, body []byte) (*Request, error) {
	return readRequest(e, &scanner{b: body})
}

// Read is Parse for a body that is still coming. Each piece is looked at when it
// has just come and is in the processor's cache: for a long prompt, that is most
// of the cost. After an error there may be more to come.
func Read(e Endpoint, body Source) (*Request, error) {
	return readRequest(e, &scanner{more: body})
}

func readRequest(e Endpoint, s *scanner) (*Request, error) {
	r := &Request{endpoint: e}
	s.long = &r.long
	start := s.space(0)
	if !s.has(start) || s.b[start] != '{' {
		return nil, notObject(s, start)
	}
	m := s.object(start, 0)
	r.open = start + 1
	var buf [maxKeyLen]byte
	for m.more() {
		name := m.name(s.b, &buf)
		k := keyOf(e, name)
		if k == keyOther || !m.finish() {
			continue
		}
		if bad := tooLong(len(s.b)); bad != nil {
			return nil, bad
		}
		r.body = s.b
		if bad := r.note(k, m.name(s.b, &buf), &m); bad != nil {
			return nil, bad
		}
	}
	r.lastEnd = m.end
	if m.behind < 0 || !s.end(m.behind) {
		return nil, badJSON(s)
	}
	r.body, r.close = s.b, m.behind-1
	if bad := tooLong(len(s.b)); bad != nil {
		return nil, bad
	}
	return r, nil
}

// tooLong refuses a body of n bytes that is too long for us.
func tooLong(n int) *BadRequest {
	if n <= maxBody {
		return nil
	}
	return &BadRequest{Message: fmt.Sprintf("the body is longer than %d bytes", maxBody), Code: CodeTooLong}
}

// notObject says why a body that does not begin with a brace is refused.
func notObject(s *scanner, start int) *BadRequest {
	if !s.has(start) {
		return &BadRequest{Message: "the body is empty, a JSON object is needed", Code: CodeJSON}
	}
	if end := s.value(start, 0); end < 0 || !s.end(end) {
		return badJSON(s)
	}
	return &BadRequest{Message: "the body must be a JSON object", Code: CodeJSON}
}

// note remembers a member that is ours. Null is the same as absent.
func (r *Request) note(k key, name []byte, m *members) *BadRequest {
	switch {
	case k == keyHandoff:
		return r.drop(&m.member)
	case k > keyHandoff: // of two, engines take the last
		r.also[k-keyHandoff-1] = span{int32(m.start), int32(m.end)}
		return nil
	}
	if r.known[k].end != 0 {
		return duplicate(string(name), m.key)
	}
	r.known[k] = m.place()
	value := r.body[m.start:m.end]
	if value[0] == 'n' {
		return nil
	}
	if want := wrongType(k, value); want != "" {
		return badType(string(name), m.start, want)
	}
	switch {
	case k == keyN:
		return r.noteN(m.member, "n")
	case k == keySamplingParams:
		return r.noteSampling(m)
	case k == keyXargs:
		return r.noteXargs(m)
	case k.isPrompt():
		r.noteBatch(k, m)
	}
	return nil
}

// drop removes a hand-off key of the client. How many are remembered is
// bounded, because a body may consist of nothing else.
func (r *Request) drop(m *member) *BadRequest {
	if len(r.drops) == maxDrops {
		return &BadRequest{
			Message: fmt.Sprintf("more than %d keys that only a router may set, at byte %d", maxDrops, m.key),
			Code:    CodeDuplicate,
		}
	}
	r.drops = append(r.drops, m.place())
	return nil
}

// wrongType returns what a value that is not null should have been, or "".
func wrongType(k key, value []byte) string {
	c := value[0]
	switch k { //nolint:exhaustive // the other keys may have any type: engines judge them
	case keyModel:
		return unless(c == '"', "a string")
	case keyStream, keyEcho:
		return unless(c == 't' || c == 'f', "true or false")
	case keyMaxTokens, keyMaxCompletionTokens:
		return unless(isNumber(c), "a number")
	case keyMessages, keyTools:
		return unless(c == '[', "a list")
	case keyPrompt, keyText:
		return unless(c == '"' || c == '[', "a string or a list")
	case keyInputIDs, keyInputEmbeds:
		return unless(c == '[', "a list")
	case keyStreamOptions, keyXargs:
		return unless(c == '{', "an object")
	case keySamplingParams:
		return unless(c == '{' || c == '[', "an object or a list of objects")
	case keyPromptLogprobs:
		return unless(isNumber(c), "a number")
	}
	return ""
}

func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

func isNumber(c byte) bool { return c == '-' || c-'0' <= 9 }

// noteN remembers a number of answers for each prompt.
func (r *Request) noteN(m member, name string) *BadRequest {
	n, ok := integer(r.body[m.start:m.end])
	if !ok {
		return badType(name, m.start, "an integer")
	}
	if n > 1 {
		r.several = name
	}
	return nil
}

// noteXargs drops hand-off keys inside vllm_xargs: vLLM lays its
// kv_transfer_params over them, so a leg without a hand-off would show the
// client's to the connector.
func (r *Request) noteXargs(m *members) *BadRequest {
	inner := (&scanner{b: r.body}).object(m.start, 1)
	var buf [maxKeyLen]byte
	for inner.more() {
		if handoffKey(inner.name(r.body, &buf)) && inner.finish() {
			if bad := r.drop(&inner.member); bad != nil {
				return bad
			}
		}
	}
	return nil
}

// value returns the bytes of a key's value, or nil if it is absent or null.
func (r *Request) value(k key) []byte {
	var at span
	if k > keyHandoff {
		at = r.also[k-keyHandoff-1]
	} else {
		at = span{r.known[k].start, r.known[k].end}
	}
	if at.end == 0 || r.body[at.start] == 'n' {
		return nil
	}
	return r.body[at.start:at.end]
}

// truth tells whether a key is true, or a number or string that Python takes
// for true.
func (r *Request) truth(k key) bool {
	v := r.value(k)
	return v != nil && v[0] != 'f' && string(v) != "0" && string(v) != `""`
}

// Endpoint returns the endpoint that the request came to.
func (r *Request) Endpoint() Endpoint { return r.endpoint }

// Model returns the model's name, "" if absent or null.
func (r *Request) Model() string { return text(r.value(keyModel)) }

// Forget lets go of the body. Afterwards no leg can be written, and only what does
// not look into the body can be asked: Endpoint, Batch, Dropped.
func (r *Request) Forget() { r.body = nil }

// Stream tells whether the client wants a stream.
func (r *Request) Stream() bool { return r.truth(keyStream) }

// Dropped returns how many hand-off keys of the client were removed.
func (r *Request) Dropped() int { return len(r.drops) }

// MaxTokens returns how many tokens the client allows the answer. It is not ok
// if the client does not say, or not as an integer.
func (r *Request) MaxTokens() (n int64, ok bool) {
	if r.newLimit.end != 0 {
		return integer(r.body[r.newLimit.start:r.newLimit.end])
	}
	if v := r.value(keyMaxCompletionTokens); v != nil {
		return integer(v)
	}
	return integer(r.value(keyMaxTokens))
}

// Priority returns what a client says of how urgent its request is, which
// engines read too, each kind in its own way. It is not ok if it does not say, or
// not as an integer.
func (r *Request) Priority() (n int64, ok bool) { return integer(r.value(keyPriority)) }
