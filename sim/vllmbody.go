package sim

import (
	"errors"
	"net/http"
	"strconv"
)

// fingerprint is what every vLLM answer carries.
const fingerprint = `"system_fingerprint":"vllm-0.32.0-e15b17c3"`

// name gives the request its id, from the client's header if it has one, and
// the legs theirs on the side channel.
func (c *call) name() {
	id := c.hr.Header.Get("X-Request-Id")
	if id == "" {
		id = randomHex(8)
	}
	prefix := "cmpl-"
	if c.r.path == pathChat {
		prefix = "chatcmpl-"
	}
	c.id = prefix + id
	for i, l := range c.legs {
		l.rid = c.id
		if c.r.path != pathChat {
			l.rid += "-" + strconv.Itoa(i)
		}
		l.rid += "-" + randomHex(4)
	}
}

// vllmRefuse answers 400, or what else the client did wrong.
func (c *call) vllmRefuse(err error) {
	status, kind, param := http.StatusBadRequest, "BadRequestError", ""
	message := err.Error()
	if f, ok := errors.AsType[*failure](err); ok {
		status, kind, param = f.status, "NotFoundError", "model"
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		param = r.param
	}
	c.vllmError(status, kind, param, message)
}

// vllmError answers with the nested envelope.
func (c *call) vllmError(status int, kind, param, message string) {
	b := appendJSON([]byte(`{"error":{"message":`), message)
	b = append(b, `,"type":"`+kind+`","param":`...)
	if param == "" {
		b = append(b, "null"...)
	} else {
		b = appendJSON(b, param)
	}
	b = appendField(b, `,"code":`, status)
	answerJSON(c.w, status, append(b, "}}"...))
}

// vllmFail answers 500.
func (c *call) vllmFail(err error) {
	c.vllmError(http.StatusInternalServerError, "InternalServerError", "", err.Error())
}

// vllmBody returns the answer of a request that does not stream.
func (c *call) vllmBody() []byte {
	b := make([]byte, 0, 1024+2*len(c.legs[0].text))
	chat := c.r.path == pathChat
	if chat {
		b = c.appendHead(b, c.id, "chat.completion")
	} else {
		b = c.appendHead(b, c.id, "text_completion")
	}
	b = append(b, `"choices":[`...)
	for i, l := range c.legs {
		if i > 0 {
			b = append(b, ',')
		}
		b = l.appendVLLMChoice(appendField(b, `{"index":`, i))
	}
	b = append(b, `],"service_tier":null,`+fingerprint+`,"usage":`...)
	b = c.appendVLLMUsage(b)
	if chat {
		b = append(b, `,"prompt_logprobs":`...)
		b = c.legs[0].appendPromptLogprobs(b)
		b = append(b, `,"prompt_token_ids":null,"prompt_text":null`...)
	}
	b = append(b, `,"kv_transfer_params":`...)
	b = c.appendParams(b)
	return append(b, `,"ec_transfer_params":null,"metrics":null}`...)
}

// appendVLLMChoice appends one answer.
func (l *leg) appendVLLMChoice(b []byte) []byte {
	chat := l.r.path == pathChat
	if chat {
		b = l.appendVLLMMessage(append(b, `,"message":`...))
	} else {
		b = appendJSON(append(b, `,"text":`...), l.echoed())
	}
	b = append(b, `,"logprobs":`...)
	b = l.appendLogprobs(b, 0, l.spoken())
	b = append(b, `,"finish_reason":`...)
	b = appendJSON(b, l.vllmReason())
	b = append(b, `,"stop_reason":null,"token_ids":null`...)
	if !chat {
		b = append(b, `,"prompt_logprobs":`...)
		b = l.appendPromptLogprobs(b)
		b = append(b, `,"prompt_token_ids":null`...)
	}
	return append(b, `,"routed_experts":null}`...)
}

// appendVLLMMessage appends the message of a chat's answer.
func (l *leg) appendVLLMMessage(b []byte) []byte {
	const rest = `,"refusal":null,"annotations":null,"audio":null,"function_call":null`
	b = append(b, `{"role":"assistant","content":`...)
	if !l.calls() {
		b = appendJSON(b, string(l.text))
		return append(b, rest+`,"reasoning":null}`...)
	}
	b = append(b, "null"+rest+`,"tool_calls":[{"id":"chatcmpl-tool-`+randomHex(8)+`","type":"function","function":{"name":`...)
	b = appendJSON(b, l.r.tool.name)
	b = append(b, `,"arguments":`...)
	b = appendJSON(b, string(l.text))
	return append(b, `}}],"reasoning":null}`...)
}

// calls reports whether the answer is a tool call. With one token, as on a
// prefill leg, it is only the beginning of one, which is no call yet.
func (l *leg) calls() bool { return l.r.tool != nil && l.e.cfg.Role == Decode }

// vllmReason returns why the answer ended.
func (l *leg) vllmReason() string {
	if l.reason == "stop" && l.calls() && !l.r.tool.named {
		return "tool_calls"
	}
	return l.reason
}

func (c *call) appendVLLMUsage(b []byte) []byte {
	var cached int
	b, cached = c.appendVLLMCounts(b)
	b = append(b, `,"prompt_tokens_details":`...)
	if c.e.cfg.NoCacheReport {
		b = append(b, "null"...)
	} else {
		b = appendField(b, `{"cached_tokens":`, cached)
		b = append(b, `,"created_cache_tokens":null,"multimodal_tokens":null}`...)
	}
	return append(b, `,"completion_tokens_details":null}`...)
}

// appendVLLMCounts appends the open object of usage.
func (c *call) appendVLLMCounts(b []byte) (_ []byte, cachedTokens int) {
	prompt, made, cached := c.sums()
	b = appendField(b, `{"prompt_tokens":`, prompt)
	b = appendField(b, `,"total_tokens":`, prompt+made)
	return appendField(b, `,"completion_tokens":`, made), cached
}

// appendParams appends the hand-off object of a prefill leg, of the first of
// its prompts only, else null.
func (c *call) appendParams(b []byte) []byte {
	l := c.legs[0]
	if l.held == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[`...)
	for i, id := range l.held {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	b = append(b, `]],"remote_engine_id":`...)
	b = appendJSON(b, c.e.id)
	b = append(b, `,"remote_request_id":`...)
	b = appendJSON(b, l.rid)
	host, port := hostPort(c.e.side.Addr())
	b = append(b, `,"remote_host":`...)
	b = appendJSON(b, host)
	b = appendField(b, `,"remote_port":`, port)
	b = append(b, `,"tp_size":1,"dcp_size":1,"pp_size":1`...)
	b = appendField(b, `,"remote_num_tokens":`, l.q.promptTokens)
	b = append(b, `,"remote_blocks_expiry_time":null,"transfer_mode":"pull"`...)
	return append(appendField(b, `,"remote_prefill_cached_tokens":`, l.cached), '}')
}

// appendPromptLogprobs appends what was asked for of the prompt's tokens.
func (l *leg) appendPromptLogprobs(b []byte) []byte {
	if l.r.promptLogprobs < 0 {
		return append(b, "null"...)
	}
	b = append(b, "[null"...)
	for i, token := range l.p.tokens {
		if i == 0 {
			continue
		}
		b = append(b, `,{"`...)
		b = strconv.AppendUint(b, uint64(token), 10)
		b = append(b, `":{"logprob":`...)
		b = appendLogprob(b, uint64(token), i, 0)
		b = append(b, `,"rank":1,"decoded_token":`...)
		b = appendJSON(b, "t"+strconv.FormatUint(uint64(token), 10))
		b = append(b, "}}"...)
	}
	return append(b, ']')
}
