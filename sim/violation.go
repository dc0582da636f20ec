package sim

import "sync"

// The kinds of violations: what a router must not do to an engine. Each is
// answered as the real engine would, which is often 200.
const (
	RoomTwice          = "room used twice at the same time"
	FloatRoom          = "room is not an integer"
	NoRoom             = "no room"
	SeveralSamples     = "n above 1"
	RIDTwice           = "rid used twice at the same time"
	RIDPrefix          = "rid is the beginning of another"
	DuplicateKey       = "hand-off key twice in a body"
	WrongPrompt        = "KV of another prompt"
	PulledTwice        = "blocks pulled twice"
	BadParams          = "hand-off parameters incomplete"
	NoRequestID        = "hand-off parameters without remote_request_id"
	Killed             = "hand-off parameters killed the engine"
	PrefillStreams     = "prefill leg streams"
	PrefillTokens      = "prefill leg asks for more than one token"
	PrefillOptions     = "prefill leg has min_tokens or stream_options"
	PrefillBatch       = "prefill leg has a list of prompts"
	DecodePromptOutput = "decode leg asks for echo or prompt logprobs"
)

// maxViolations bounds what an engine remembers of them.
const maxViolations = 4096

// violations are those that an engine has seen, in order.
type violations struct {
	tell func(kind string) // nil: nobody

	mu    sync.Mutex
	kinds []string
}

func (v *violations) add(kind string) {
	v.mu.Lock()
	if len(v.kinds) < maxViolations {
		v.kinds = append(v.kinds, kind)
	}
	v.mu.Unlock()
	if v.tell != nil {
		v.tell(kind)
	}
}

func (v *violations) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.kinds...)
}
