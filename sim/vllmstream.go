package sim

import "net/http"

// vllmStream runs a request and sends its answer as events. Its head goes
// before any work is done.
func (c *call) vllmStream() {
	s := &events{w: c.w}
	s.begin()
	s.flush()
	for i, l := range c.legs {
		l.emit = func(token string) error {
			c.vllmChunk(s, l, i, token)
			return nil
		}
		err := c.vllmRun(l)
		if err != nil && c.stopped(err) {
			return
		}
		if err != nil {
			s.errorEvent(VLLMNixl, err.Error(), http.StatusInternalServerError)
			s.done()
			return
		}
		if l.reason == "stop" || l.spoken() < l.n || l.n == 0 {
			c.vllmLast(s, l, i)
		}
	}
	if c.r.includeUsage {
		b := append(c.appendVLLMChunkHead(s.frame()), `"choices":[],"usage":`...)
		b, cached := c.appendVLLMCounts(b)
		if !c.e.cfg.NoCacheReport {
			b = append(appendField(b, `,"prompt_tokens_details":{"cached_tokens":`, cached), '}')
		}
		s.send(append(b, `},`+fingerprint+`}`...))
	}
	s.done()
}

func (c *call) appendVLLMChunkHead(b []byte) []byte {
	if c.r.path == pathChat {
		return c.appendHead(b, c.id, "chat.completion.chunk")
	}
	return c.appendHead(b, c.id, "text_completion")
}

// vllmChunk sends one token. The last one brings the reason, if it is not the
// model that ended the answer.
func (c *call) vllmChunk(s *events, l *leg, index int, token string) {
	last := l.count == l.n && !l.stops
	if last {
		l.reason = "length"
	}
	if c.r.path == pathCompletions {
		if l.count == 1 && l.r.echo {
			token = l.p.text + token
		}
		c.vllmCompletionChunk(s, l, index, token)
		return
	}
	if l.count == 1 {
		b := appendField(append(c.appendVLLMChunkHead(s.frame()), `"choices":[`...), `{"index":`, index)
		s.send(append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],`+
			`"prompt_token_ids":null,"prompt_text":null}`...))
	}
	b := appendField(append(c.appendVLLMChunkHead(s.frame()), `"choices":[`...), `{"index":`, index)
	b = append(b, `,"delta":{"content":`...)
	if l.calls() {
		if l.count == 1 {
			b = append(b, `null,"tool_calls":[{"id":"chatcmpl-tool-`+randomHex(8)+`","type":"function","index":0,"function":{"name":`...)
			b = appendJSON(b, l.r.tool.name)
			s.send(append(b, `}}]},"logprobs":null,"finish_reason":null,"token_ids":null}]}`...))
			b = appendField(append(c.appendVLLMChunkHead(s.frame()), `"choices":[`...), `{"index":`, index)
			b = append(b, `,"delta":{"content":`...)
		}
		b = append(b, `null,"tool_calls":[{"index":0,"function":{"arguments":`...)
		b = append(appendJSON(b, token), `}}]`...)
	} else {
		b = appendJSON(b, token)
	}
	b = l.appendLogprobs(append(b, `},"logprobs":`...), l.count-1, l.count)
	if last {
		b = append(b, `,"finish_reason":"length","stop_reason":null,"token_ids":null}]`...)
		s.send(append(c.appendFingerprint(b), '}'))
		return
	}
	s.send(append(b, `,"finish_reason":null,"token_ids":null}]}`...))
}

// vllmCompletionChunk sends one token of a completion.
func (c *call) vllmCompletionChunk(s *events, l *leg, index int, token string) {
	b := appendField(append(c.appendVLLMChunkHead(s.frame()), `"choices":[`...), `{"index":`, index)
	b = appendJSON(append(b, `,"text":`...), token)
	if token == "" {
		b = append(b, `,"logprobs":null`...)
	} else {
		b = l.appendLogprobs(append(b, `,"logprobs":`...), l.count-1, l.count)
	}
	b = append(b, `,"finish_reason":`...)
	const rest = `,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]`
	if l.reason == "" {
		s.send(append(b, "null"+rest+"}"...))
		return
	}
	b = append(appendJSON(b, l.reason), rest...)
	s.send(append(c.appendFingerprint(b), '}'))
}

// vllmLast sends the end of an answer that the model ended, or that was cut
// short.
func (c *call) vllmLast(s *events, l *leg, index int) {
	if c.r.path == pathCompletions {
		c.vllmCompletionChunk(s, l, index, "")
		return
	}
	b := appendField(append(c.appendVLLMChunkHead(s.frame()), `"choices":[`...), `{"index":`, index)
	b = append(b, `,"delta":{},"logprobs":null,"finish_reason":`...)
	b = appendJSON(b, l.vllmReason())
	b = append(b, `,"stop_reason":null,"token_ids":null}]`...)
	s.send(append(c.appendFingerprint(b), '}'))
}

// appendFingerprint appends what the last event carries: this one, unless one
// of usage follows.
func (c *call) appendFingerprint(b []byte) []byte {
	if c.r.includeUsage {
		return b
	}
	return append(b, ","+fingerprint...)
}
