package transfer

// An Order says how the legs of an attempt follow each other.
type Order uint8

// The orders.
const (
	Concurrent   Order = iota // both legs at once; they wait for each other
	PrefillFirst              // decode's leg is written from prefill's answer
)

// Traits are what is fixed about a dialect.
type Traits struct {
	Name      string // as in --dialect and in metric labels
	Order     Order
	Endpoints [endpoints]bool // by endpoint: whether it carries it
}

// A Dialect is one way in which engines hand KV blocks from prefill to decode.
// Its methods are pure: they are given bytes and return bytes, and may be
// called from any goroutine. They do not keep what they are given, but what
// they return may share memory with it.
type Dialect interface {
	Traits() Traits

	// Check refuses, with a *BadRequest, what no pair of this dialect can
	// serve. Call it before a worker is touched; Legs rely on it.
	Check(req *Request) error

	Legs

	// Merge returns the client's answer where it needs parts of both legs
	// (logprobs of the prompt, echo); JSON answers of status 200 only. Else,
	// and that is when Leg.Merged is false, it returns decode's unchanged.
	Merge(req *Request, prefill, decode []byte) ([]byte, error)
}

// Legs write the two requests of an attempt.
type Legs interface {
	// Prefill returns the prefill leg of attempt a. It never streams, so that
	// its verdict is one whole answer.
	Prefill(req *Request, a Attempt) (Leg, error)

	// Decode returns the decode leg of attempt a. In a PrefillFirst dialect
	// answer is the whole body of prefill's 200, checked here: a malformed
	// hand-off object is an ErrBadHandOff and must not reach an engine. If
	// prefill hands nothing over, the leg says so (Leg.HandedOff). In a
	// Concurrent dialect answer is nil.
	Decode(req *Request, a Attempt, answer []byte) (Leg, error)
}

// A Releaser is a Dialect whose prefill worker keeps the blocks of a prompt
// until a decode worker has taken them over.
type Releaser interface {
	// Release returns a decode leg that makes one token, for nobody: it has the
	// blocks freed when no decode leg took them over. It is as the decode leg
	// that was not sent, and like it uses the attempt up. HandedOff is false if
	// there is nothing to release, and the leg is not to be sent then.
	Release(req *Request, a Attempt, answer []byte) (Leg, error)
}

// Lookup returns the dialect of a name. A new dialect is a line here and one in
// Names.
func Lookup(name string) (Dialect, bool) {
	switch name {
	case nameSGLang:
		return SGLang{}, true
	case nameVLLMNIXL:
		return VLLMNIXL{}, true
	}
	return nil, false
}

// Names returns the names of all dialects.
func Names() []string { return []string{nameSGLang, nameVLLMNIXL} }

// Carries tells whether a dialect hands requests of an endpoint off.
func Carries(d Dialect, e Endpoint) bool {
	return d.Traits().Endpoints[e]
}
