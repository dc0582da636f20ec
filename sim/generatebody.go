package sim

import (
	"errors"
	"strconv"
	"time"
)

// sglangGenerateBody returns the answer of /generate: an object, or a list of
// them for a batch.
func (c *call) sglangGenerateBody() []byte {
	b := make([]byte, 0, 1024+2*len(c.legs[0].text))
	if c.r.batch {
		b = append(b, '[')
	}
	for i, l := range c.legs {
		if i > 0 {
			b = append(b, ',')
		}
		b = l.appendGenerate(b, true, -1)
	}
	if c.r.batch {
		b = append(b, ']')
	}
	return b
}

// sglangGenerateStream runs /generate and sends its events, each of which has
// the whole text so far.
func (c *call) sglangGenerateStream(s *events) {
	for i, l := range c.legs {
		index := -1
		if c.r.batch {
			index = i
		}
		// The last token comes with the reason, so each is sent when the next
		// one is there.
		l.emit = func(string) error {
			if l.count < l.n || l.stops {
				s.send(l.appendGenerate(s.frame(), false, index))
			}
			return nil
		}
	}
	for i, l := range c.legs {
		index := -1
		if c.r.batch {
			index = i
		}
		err := c.sglangRun(l)
		if err != nil && c.stopped(err) {
			return
		}
		if err != nil {
			s.send(l.appendGenerateAbort(s.frame(), err, index))
			continue
		}
		s.send(l.appendGenerate(s.frame(), true, index))
	}
	s.done()
}

// appendGenerate appends the object of /generate: the text so far, and all
// that meta_info says at the end. index is -1 but in a streamed batch.
func (l *leg) appendGenerate(b []byte, last bool, index int) []byte {
	b = append(b, '{')
	if index >= 0 {
		b = append(appendField(b, `"index":`, index), ',')
	}
	b = append(b, `"text":`...)
	b = appendJSON(b, string(l.text))
	b = append(b, `,"output_ids":[`...)
	for i := range l.count {
		if i > 0 {
			b = append(b, ',')
		}
		id := wordID(l.id, i)
		if i == l.n {
			id = eosToken
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	b = append(b, `],"meta_info":{"id":`...)
	b = appendJSON(b, l.rid)
	b = append(b, `,"finish_reason":`...)
	b = l.appendGenerateReason(b, last)
	b = appendField(b, `,"prompt_tokens":`, l.q.promptTokens)
	b = append(b, `,"weight_version":"default","num_retractions":0`...)
	if l.e.cfg.Role == Prefill {
		b = append(b, `,"storage_prefetch_wait":0.0,"storage_staging_wait":0.0`...)
	}
	b = append(b, `,"forward_entry_time":`...)
	b = appendSeconds(b, l.dispatched)
	if l.e.cfg.Role == Prefill {
		b = append(b, `,"prefill_finished_time":`...)
		b = appendSeconds(b, l.computed)
	}
	b = append(b, `,"queue_time":`...)
	b = appendDuration(b, sinceStart(l.received, l.admitted))
	return append(l.appendMetaEnd(b, last, nil), "}}"...)
}

// appendGenerateReason appends why the answer ended, null before it has.
func (l *leg) appendGenerateReason(b []byte, last bool) []byte {
	switch {
	case !last:
		return append(b, "null"...)
	case l.reason == "stop":
		return append(appendField(b, `{"type":"stop","matched":`, eosToken), '}')
	case l.reason == "abort":
		return append(b, `{"type":"abort","message":"Aborted by AbortReq.","status_code":null,"err_type":null}`...)
	case l.e.cfg.Role == Prefill:
		return append(b, `{"type":"length","length":0}`...)
	}
	return append(appendField(b, `{"type":"length","length":`, l.count), '}')
}

// appendMetaEnd appends the rest of meta_info.
func (l *leg) appendMetaEnd(b []byte, last bool, failed error) []byte {
	b = appendField(b, `,"reasoning_tokens":0,"completion_tokens":`, l.count)
	b = appendField(b, `,"cached_tokens":`, l.cached)
	if last {
		b = appendField(b, `,"weight_versions":[{"version":"default","start":0,"end":`, l.count)
		b = append(b, "}]"...)
	}
	b = append(b, `,"cached_tokens_details":`...)
	if l.cached > 0 {
		b = append(appendField(b, `{"device":`, l.cached), `,"host":0}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"dp_rank":null`...)
	if l.r.logprobs && failed == nil {
		b = l.appendGenerateLogprobs(b)
	}
	streams := l.r.stream && l.e.cfg.Role == Decode && failed == nil
	now := time.Now()
	first := l.first
	if first.IsZero() {
		first = now
	}
	if !last {
		if l.count == 1 {
			b = appendSeconds(append(b, `,"response_sent_to_client_ts":`...), now)
		}
		return b
	}
	b = appendDuration(append(b, `,"e2e_latency":`...), now.Sub(l.received))
	b = appendSeconds(append(b, `,"request_received_ts":`...), l.received)
	b = appendDuration(append(b, `,"first_token_latency":`...), first.Sub(l.received))
	b = appendSeconds(append(b, `,"api_server_dispatch_finish_ts":`...), l.dispatched)
	if streams {
		b = appendSeconds(append(b, `,"response_sent_to_client_ts":`...), first)
	}
	b = appendSeconds(append(b, `,"request_finished_ts":`...), now)
	if !streams {
		return appendSeconds(append(b, `,"response_sent_to_client_ts":`...), now)
	}
	rate := float64(l.count) / max(now.Sub(first).Seconds(), 1e-6)
	b = append(b, `,"decode_throughput":`...)
	return strconv.AppendFloat(b, rate, 'f', 6, 64)
}

// appendGenerateLogprobs appends [logprob, id, text] of the prompt's tokens,
// which only prefill computes, and of the answer's.
func (l *leg) appendGenerateLogprobs(b []byte) []byte {
	b = append(b, `,"input_token_logprobs":[`...)
	if l.e.cfg.Role == Prefill && l.r.logprobStart >= 0 {
		for i := l.r.logprobStart; i < len(l.p.tokens); i++ {
			if i > l.r.logprobStart {
				b = append(b, ',')
			}
			b = append(b, '[')
			if i == 0 {
				b = append(b, "null"...)
			} else {
				b = appendLogprob(b, uint64(l.p.tokens[i]), i, 0)
			}
			b = appendField(b, ",", int(l.p.tokens[i]))
			b = append(b, ",null]"...)
		}
	}
	b = append(b, `],"output_token_logprobs":[`...)
	for i := range l.count {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLogprob(append(b, '['), l.id, i, 0)
		b = appendField(b, ",", wordID(l.id, i))
		b = append(b, ",null]"...)
	}
	return append(b, ']')
}

// appendGenerateAbort appends the object of a stream whose hand-off failed.
func (l *leg) appendGenerateAbort(b []byte, err error, index int) []byte {
	status := 500
	if f, ok := errors.AsType[*failure](err); ok {
		status = f.status
	}
	b = append(b, '{')
	if index >= 0 {
		b = append(appendField(b, `"index":`, index), ',')
	}
	b = append(b, `"text":"","output_ids":[],"meta_info":{"id":`...)
	b = appendJSON(b, l.rid)
	b = append(b, `,"finish_reason":{"type":"abort","message":`...)
	b = appendJSON(b, err.Error())
	b = appendField(b, `,"status_code":`, status)
	b = appendField(b, `,"err_type":null},"prompt_tokens":`, l.q.promptTokens)
	b = append(b, `,"weight_version":"default","num_retractions":0,"queue_time":0.0`...)
	return append(l.appendMetaEnd(b, true, err), "}}"...)
}
