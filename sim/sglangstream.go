package sim

import "net/http"

// sglangStream runs a request and sends its answer as events.
func (c *call) sglangStream() {
	s := &events{w: c.w}
	if c.r.path == pathGenerate {
		// Its head does not wait for anything.
		s.begin()
		s.flush()
		c.sglangGenerateStream(s)
		return
	}
	for i, l := range c.legs {
		l.emit = func(token string) error {
			c.sglangToken(s, l, i, token)
			return nil
		}
	}
	err := c.sglangRunEach()
	if err != nil && c.stopped(err) {
		return
	}
	if err != nil {
		s.errorEvent(SGLang, err.Error(), http.StatusInternalServerError)
	} else {
		for i, l := range c.legs {
			c.sglangLast(s, l, i)
		}
	}
	if c.r.includeUsage {
		b := c.appendChunkHead(s.frame(), c.legs[0])
		b = append(b, `"choices":[],"usage":`...)
		s.send(append(c.appendSGLangStreamUsage(b), '}'))
	}
	s.done()
}

// sglangRunEach runs the legs of a stream, one after the other: nobody streams
// batches for speed.
func (c *call) sglangRunEach() error {
	for _, l := range c.legs {
		if err := c.sglangRun(l); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) appendChunkHead(b []byte, l *leg) []byte {
	if c.r.path == pathChat {
		return c.appendHead(b, l.rid, "chat.completion.chunk")
	}
	return c.appendHead(b, l.rid, "text_completion")
}

// choice starts an event of one answer.
func (c *call) choice(s *events, l *leg, index int) []byte {
	return appendField(append(c.appendChunkHead(s.frame(), l), `"choices":[`...), `{"index":`, index)
}

// sglangToken sends one token.
func (c *call) sglangToken(s *events, l *leg, index int, token string) {
	if c.r.path == pathCompletions {
		if l.count == 1 && l.r.echo {
			token = l.p.text + token
		}
		if l.count == l.n && !l.stops {
			l.reason = "length"
		}
		c.sglangText(s, l, index, token)
		return
	}
	if l.count == 1 {
		s.send(append(c.choice(s, l, index), `,"delta":{"reasoning_content":null,"role":"assistant","content":""},`+
			`"logprobs":null,"finish_reason":null,"matched_stop":null}]}`...))
	}
	if l.r.tool != nil && c.e.cfg.Role == Decode {
		c.sglangToolToken(s, l, index, token)
		return
	}
	b := append(c.choice(s, l, index), `,"delta":{"reasoning_content":null,"content":`...)
	b = appendJSON(b, token)
	b = l.appendLogprobs(append(b, `},"logprobs":`...), l.count-1, l.count)
	s.send(append(b, `,"finish_reason":null,"matched_stop":null}]}`...))
}

// sglangText sends text of a completion. Unlike chat's, its last event has text
// and reason, and every event says that it has no usage.
func (c *call) sglangText(s *events, l *leg, index int, text string) {
	b := appendJSON(append(c.choice(s, l, index), `,"text":`...), text)
	b = append(b, `,"logprobs":`...)
	if text == "" {
		b = append(b, "null"...)
	} else {
		b = l.appendLogprobs(b, l.count-1, l.count)
	}
	b = l.appendSGLangReason(append(b, `,"finish_reason":`...))
	s.send(append(b, `}],"usage":null}`...))
}

// sglangToolToken sends one token of a tool call's arguments, its name first.
func (c *call) sglangToolToken(s *events, l *leg, index int, token string) {
	send := func(id, name, arguments string) {
		b := append(c.choice(s, l, index), `,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":`+
			id+`,"index":0,"type":"function","function":{"name":`+name+`,"arguments":`...)
		b = appendJSON(b, arguments)
		s.send(append(b, `}}]},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}`...))
	}
	if l.count == 1 {
		send(`"call_`+randomHex(12)+`"`, string(appendJSON(nil, l.r.tool.name)), "")
	}
	send("null", "null", token)
}

// sglangLast sends the end of one answer, if its last token has not been it.
func (c *call) sglangLast(s *events, l *leg, index int) {
	if c.r.path == pathCompletions {
		if l.reason != "length" || l.spoken() < l.n || l.n == 0 {
			c.sglangText(s, l, index, "")
		}
		return
	}
	b := append(c.choice(s, l, index), `,"delta":{"reasoning_content":null},"logprobs":null,"finish_reason":`...)
	s.send(append(l.appendSGLangReason(b), "}]}"...))
}

// appendSGLangStreamUsage appends usage as a stream has it: that of completions
// without what is null.
func (c *call) appendSGLangStreamUsage(b []byte) []byte {
	if c.r.path == pathChat {
		return c.appendSGLangUsage(b)
	}
	prompt, made, cached := c.sums()
	b = appendField(b, `{"prompt_tokens":`, prompt)
	b = appendField(b, `,"total_tokens":`, prompt+made)
	b = appendField(b, `,"completion_tokens":`, made)
	if !c.e.cfg.NoCacheReport {
		b = c.e.appendCached(append(b, `,"prompt_tokens_details":`...), cached)
	}
	return append(b, `,"reasoning_tokens":0}`...)
}
