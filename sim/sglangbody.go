package sim

import (
	"errors"
	"net/http"
	"strconv"
)

// sglangRefuse answers 400.
func (c *call) sglangRefuse(err error) {
	message := err.Error()
	if r, ok := errors.AsType[*refusal](err); ok {
		message = r.sglang
	}
	kind := "BadRequestError"
	b := appendJSON([]byte(`{"object":"error","message":`), message)
	b = append(b, `,"type":"`+kind+`","param":null,"code":400}`...)
	answerJSON(c.w, http.StatusBadRequest, b)
}

// sglangFail answers 500.
func (c *call) sglangFail(err error) {
	b := appendJSON([]byte(`{"object":"error","message":`), err.Error())
	b = append(b, `,"type":"500","param":null,"code":500}`...)
	answerJSON(c.w, http.StatusInternalServerError, b)
}

// sglangBody returns the answer of a request that does not stream.
func (c *call) sglangBody() []byte {
	if c.r.path == pathGenerate {
		return c.sglangGenerateBody()
	}
	b := make([]byte, 0, 512+2*len(c.legs[0].text))
	object := "chat.completion"
	if c.r.path == pathCompletions {
		object = "text_completion"
	}
	b = c.appendHead(b, c.legs[0].rid, object)
	b = append(b, `"choices":[`...)
	for i, l := range c.legs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendField(b, `{"index":`, i)
		if c.r.path == pathChat {
			b = append(b, `,"message":{"role":"assistant","content":`...)
			b = l.appendSGLangMessage(b)
		} else {
			b = append(b, `,"text":`...)
			b = appendJSON(b, l.echoed())
		}
		b = append(b, `,"logprobs":`...)
		b = l.appendLogprobs(b, 0, l.spoken())
		b = append(b, `,"finish_reason":`...)
		b = append(l.appendSGLangReason(b), '}')
	}
	b = append(b, `],"usage":`...)
	b = c.appendSGLangUsage(b)
	b = append(b, `,"metadata":{"weight_version":"default","weight_versions":[{"version":"default","start":0,`...)
	b = appendField(b, `"end":`, c.legs[0].count)
	return append(b, "}]}}"...)
}

// appendHead appends the first fields of an OpenAI body.
func (c *call) appendHead(b []byte, id, object string) []byte {
	b = append(b, `{"id":`...)
	b = appendJSON(b, id)
	b = append(b, `,"object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, c.legs[0].received.Unix(), 10)
	b = append(b, `,"model":`...)
	b = appendJSON(b, c.model())
	return append(b, ',')
}

// model returns the name of the model as the answer has it: the client's.
func (c *call) model() string {
	if c.r.model == "" {
		return c.e.cfg.Model
	}
	return c.r.model
}

// echoed returns the text of an answer, after the prompt if that was asked for.
func (l *leg) echoed() string {
	if l.r.echo {
		return l.p.text + string(l.text)
	}
	return string(l.text)
}

// appendSGLangMessage appends the content of a message, and what follows it.
func (l *leg) appendSGLangMessage(b []byte) []byte {
	if l.r.tool == nil || l.e.cfg.Role == Prefill {
		b = appendJSON(b, string(l.text))
		return append(b, `,"reasoning_content":null}`...)
	}
	b = append(b, `null,"reasoning_content":null,"tool_calls":[{"id":"call_`+randomHex(12)+
		`","index":0,"type":"function","function":{"name":`...)
	b = appendJSON(b, l.r.tool.name)
	b = append(b, `,"arguments":`...)
	b = appendJSON(b, string(l.text))
	return append(b, `}}]}`...)
}

// appendSGLangReason appends why the answer ended, and by which token.
func (l *leg) appendSGLangReason(b []byte) []byte {
	switch {
	case l.reason == "":
		return append(b, `null,"matched_stop":null`...)
	case l.reason == "stop" && l.r.tool != nil && l.r.stream:
		return appendField(b, `"tool_calls","matched_stop":`, eosToken)
	case l.reason == "stop" && l.r.tool != nil:
		return append(b, `"tool_calls","matched_stop":null`...)
	case l.reason == "stop":
		return appendField(b, `"stop","matched_stop":`, eosToken)
	}
	return append(b, `"`+l.reason+`","matched_stop":null`...)
}

func (c *call) appendSGLangUsage(b []byte) []byte {
	prompt, made, cached := c.sums()
	b = appendField(b, `{"prompt_tokens":`, prompt)
	b = appendField(b, `,"total_tokens":`, prompt+made)
	b = appendField(b, `,"completion_tokens":`, made)
	b = append(b, `,"prompt_tokens_details":`...)
	b = c.e.appendCached(b, cached)
	return append(b, `,"reasoning_tokens":0,"completion_tokens_details":null}`...)
}

// appendCached appends what usage says of cached tokens.
func (e *Engine) appendCached(b []byte, cached int) []byte {
	if e.cfg.NoCacheReport {
		return append(b, "null"...)
	}
	return append(appendField(b, `{"cached_tokens":`, cached), '}')
}
