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

// A refusal is a 400, which the two engines word differently. vLLM names the
// parameter, too.
type refusal struct{ sglang, vllm, param string }

func (r *refusal) Error() string { return r.vllm }

func badTemperature(t float64) error {
	v := strconv.FormatFloat(t, 'f', -1, 64)
	if t == float64(int64(t)) {
		v += ".0"
	}
	return &refusal{
		sglang: "temperature must be a non-negative finite number, got " + v + ".",
		vllm:   "temperature must be non-negative, got " + v + ".",
		param:  "temperature",
	}
}

func tooManyTokens(asked, context int) error {
	return &refusal{
		sglang: fmt.Sprintf("max_completion_tokens is too large: %d.This model supports at most %d completion tokens.", asked, context),
		vllm:   fmt.Sprintf("max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", asked, context),
		param:  "max_tokens",
	}
}

func promptTooLong(tokens, context int) *refusal {
	return &refusal{
		sglang: fmt.Sprintf("The input (%d tokens) is longer than the model's context length (%d tokens).", tokens, context),
		vllm: fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains %d input tokens, "+
			"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.", context, tokens),
		param: "input_tokens",
	}
}

// promptTooLarge is for one that the KV cache can never hold.
func promptTooLarge(tokens, capacity int) error {
	r := promptTooLong(tokens, capacity)
	r.sglang = fmt.Sprintf("Input length (%d tokens) exceeds the maximum allowed length (%d tokens). "+
		"Use a shorter input or enable --allow-auto-truncate.", tokens, capacity)
	return r
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
