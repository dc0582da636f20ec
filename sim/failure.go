package sim

import (
	"errors"
	"fmt"
	"strconv"
)

// Why the work on a request was stopped.
var (
	errAborted = errors.New("aborted by /abort_request")
	errGone    = errors.New("client has left")
	errClosing = errors.New("engine is stopping")
)

// A refusal is a 400, which the two engines word differently.
type refusal struct{ sglang, vllm string }

func (r *refusal) Error() string { return r.vllm }

func badTemperature(t float64) error {
	v := strconv.FormatFloat(t, 'f', -1, 64)
	if t == float64(int64(t)) {
		v += ".0"
	}
	return &refusal{
		sglang: "temperature must be a non-negative finite number, got " + v + ".",
		vllm:   "temperature must be non-negative, got " + v + ".",
	}
}

func tooManyTokens(asked, context int) error {
	return &refusal{
		sglang: fmt.Sprintf("max_completion_tokens is too large: %d.This model supports at most %d completion tokens.", asked, context),
		vllm: fmt.Sprintf("'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context length is %d tokens.",
			asked, context),
	}
}

func promptTooLong(tokens, context int) error {
	return &refusal{
		sglang: fmt.Sprintf("The input (%d tokens) is longer than the model's context length (%d tokens).", tokens, context),
		vllm: fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens. "+
			"Please reduce the length of the input messages.", context, tokens),
	}
}

// A failure is why a leg has no answer, or not a whole one.
type failure struct {
	status  int
	message string
}

func (f *failure) Error() string { return f.message }

// transferError words a failed hand-off as SGLang does; what is, for example,
// "Decode transfer".
func transferError(what string, l *leg, reason string) *failure {
	owner := "req"
	if what != whatBootstrap && what != whatPrefill {
		owner = "decode_req.req"
	}
	return &failure{500, fmt.Sprintf("%s failed for request rank=0 %s.rid='%s' %s.bootstrap_room=%d "+
		"with exception KVTransferError(bootstrap_room=%d): %s", what, owner, l.rid, owner, l.room, l.room, reason)}
}

// The steps of SGLang's hand-off that can fail.
const (
	whatBootstrap = "Prefill bootstrap"
	whatPrefill   = "Prefill transfer"
	whatHandshake = "Decode handshake"
	whatTransfer  = "Decode transfer"
)
