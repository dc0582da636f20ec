package sim

import (
	"encoding/json"
	"strconv"
	"time"
)

// appendJSON appends s as a JSON string.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			quoted, _ := json.Marshal(s)
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendField appends a key, with what must come before it, and a number.
func appendField(b []byte, key string, n int) []byte {
	b = append(b, key...)
	return strconv.AppendInt(b, int64(n), 10)
}

// appendSeconds appends a time as seconds since 1970, as Python prints it.
func appendSeconds(b []byte, t time.Time) []byte {
	return strconv.AppendFloat(b, float64(t.UnixNano())/1e9, 'f', -1, 64)
}

// appendDuration appends a duration in seconds, always with a point.
func appendDuration(b []byte, d time.Duration) []byte {
	s := strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	b = append(b, s...)
	if d%time.Second == 0 {
		b = append(b, ".0"...)
	}
	return b
}

// appendLogprobs appends the OpenAI logprobs of an answer's tokens: those of
// chat, or those of completions.
func (l *leg) appendLogprobs(b []byte, from, to int) []byte {
	switch {
	case !l.r.logprobs:
		return append(b, "null"...)
	case l.r.path == pathChat:
		b = append(b, `{"content":[`...)
		for i := from; i < to; i++ {
			if i > from {
				b = append(b, ',')
			}
			b = l.appendChatLogprob(b, i)
		}
		return append(b, "]}"...)
	}
	return l.appendCompletionLogprobs(b, from, to)
}

// appendChatLogprob appends the entry of token i.
func (l *leg) appendChatLogprob(b []byte, i int) []byte {
	b = l.appendTokenLogprob(b, i, 0)
	b = append(b, `,"top_logprobs":[`...)
	for rank := range l.r.topLogprobs {
		if rank > 0 {
			b = append(b, ',')
		}
		b = append(l.appendTokenLogprob(b, i, rank), '}')
	}
	return append(b, "]}"...)
}

// appendTokenLogprob appends the open object of what came out at place i, or
// of the rank-th alternative to it.
func (l *leg) appendTokenLogprob(b []byte, i, rank int) []byte {
	token := l.alternative(i, rank)
	b = append(b, `{"token":`...)
	b = appendJSON(b, token)
	b = append(b, `,"bytes":[`...)
	for j := range len(token) {
		if j > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(token[j]), 10)
	}
	b = append(b, `],"logprob":`...)
	return appendLogprob(b, l.id, i, rank)
}

// alternative returns the token of a rank at place i.
func (l *leg) alternative(i, rank int) string {
	if rank == 0 {
		return l.r.token(l.id, i, l.n)
	}
	return word(mix(l.id+uint64(rank)), i)
}

// appendLogprob appends a logprob: a function of prompt, place and rank, so
// that a test can tell whose it is.
func appendLogprob(b []byte, id uint64, i, rank int) []byte {
	v := -float64(mix(id^uint64(i+1))%100000)/100000 - float64(rank) - 1e-6
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// appendCompletionLogprobs appends the four lists of the completions API.
func (l *leg) appendCompletionLogprobs(b []byte, from, to int) []byte {
	list := func(key string, entry func(i int)) {
		b = append(b, key...)
		for i := from; i < to; i++ {
			if i > from {
				b = append(b, ',')
			}
			entry(i)
		}
	}
	offset := 0
	if l.r.echo {
		offset = len(l.p.text)
	}
	for i := range from {
		offset += len(l.alternative(i, 0))
	}
	list(`{"text_offset":[`, func(i int) {
		b = strconv.AppendInt(b, int64(offset), 10)
		offset += len(l.alternative(i, 0))
	})
	list(`],"token_logprobs":[`, func(i int) { b = appendLogprob(b, l.id, i, 0) })
	list(`],"tokens":[`, func(i int) { b = appendJSON(b, l.alternative(i, 0)) })
	list(`],"top_logprobs":[`, func(i int) {
		b = append(b, '{')
		for rank := range max(l.r.topLogprobs, 1) {
			if rank > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, l.alternative(i, rank))
			b = append(b, ':')
			b = appendLogprob(b, l.id, i, rank)
		}
		b = append(b, '}')
	})
	return append(b, "]}"...)
}
