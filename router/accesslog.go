package router

import (
	"sync"
	"time"

	"pdrouter/record"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// An accessLog writes a line for each request that has ended, unless there are
// too many (sampler.go). What a client or an engine said of a prompt is not in it,
// nor is any key.
type accessLog struct {
	log     *zap.Logger
	sampler sampler
	spare   sync.Pool // of *accessLine
}

func newAccessLog(log *zap.Logger) *accessLog {
	l := &accessLog{log: log}
	l.sampler.say = l.leftOut
	l.spare.New = func() any { return new(accessLine) }
	return l
}

// An accessLine is the memory that one line takes. It is used again.
type accessLine struct {
	fields []zap.Field
	view   record.View
}

// write writes the line of a request that has ended now, with that status.
func (l *accessLog) write(c *call, now time.Time, status int) {
	k := kindOf(c, status)
	if !l.log.Core().Enabled(k.level) || !l.sampler.take(now, k) {
		return
	}
	line, _ := l.spare.Get().(*accessLine)
	defer l.spare.Put(line)
	defer clear(line.fields[:cap(line.fields)])
	c.rec.CopyTo(&line.view)
	line.fields = append(line.fields[:0],
		zap.String("request_id", c.id), zap.String("path", shortened(c.r.URL.Path, maxShown)), zap.Int("status", status))
	if k.code != "" {
		line.fields = append(line.fields, zap.String("code", k.code))
	}
	line.fields = append(line.fields, zap.Duration("duration", now.Sub(c.began)), zap.Int64("bytes", c.w.bytes))
	line.addRoute(c)
	line.addTimes(c, now)
	line.addTokens()
	if k.level == zapcore.WarnLevel && c.fault != nil {
		line.fields = append(line.fields, zap.Error(c.fault))
	}
	if entry := l.log.Check(k.level, k.message); entry != nil {
		entry.Write(line.fields...)
	}
}

// addRoute adds what was asked for and who was asked.
func (l *accessLine) addRoute(c *call) {
	if c.dialect != "" || c.prefill != "" || c.decode != "" { // else nobody serves the model, and its name may be anything
		l.fields = append(l.fields, zap.String("model", shortened(c.model, maxShown)))
	}
	if c.prefill != "" {
		l.fields = append(l.fields, zap.String("prefill", c.prefill))
	}
	if c.decode != "" {
		l.fields = append(l.fields, zap.String("decode", c.decode))
	}
	if c.attempts > 0 { // else it went to one engine as it came
		l.fields = append(l.fields, zap.Int("attempts", c.attempts))
	}
	if c.room != 0 {
		l.fields = append(l.fields, zap.Uint64("room", c.room))
	}
}

// addTimes adds the phases of a request that got as far as to wait for a pair.
func (l *accessLine) addTimes(c *call, now time.Time) {
	v := &l.view
	if v.At[record.Admit].IsZero() {
		return
	}
	took := &phaseTimes{}
	l.fields = append(l.fields, zap.Bool("stream", v.Streaming))
	for p := range took {
		took[p].name = v.Name(record.Phase(p))
		took[p].took, took[p].reached = v.Took(record.Phase(p), now)
	}
	l.fields = append(l.fields, zap.Object("phases", took))
	if v.Lacked != "" {
		l.fields = append(l.fields, zap.String("waited_for", v.Lacked))
	}
	if c.ttft > 0 {
		l.fields = append(l.fields, zap.Duration("ttft", c.ttft))
	}
	if itl := v.ITL(); itl > 0 {
		l.fields = append(l.fields, zap.Duration("itl", itl))
	}
}

// addTokens adds what engines said of the request, as far as they did.
func (l *accessLine) addTokens() {
	add := func(name string, n int64) {
		if n >= 0 && len(l.view.Attempts) > 0 {
			l.fields = append(l.fields, zap.Int64(name, n))
		}
	}
	add("prompt_tokens", l.view.PromptTokens)
	add("cached_tokens", l.view.CachedTokens)
	add("answer_tokens", l.view.AnswerTokens)
}

// A phaseTimes is for how long a request was in each phase that it reached.
type phaseTimes [record.Phases]struct {
	name    string
	took    time.Duration
	reached bool
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (t *phaseTimes) MarshalLogObject(out zapcore.ObjectEncoder) error {
	for _, p := range t {
		if p.reached {
			out.AddDuration(p.name, p.took)
		}
	}
	return nil
}

// kindOf returns the kind of the line for a request.
func kindOf(c *call, status int) kind {
	k := kind{level: zapcore.InfoLevel, message: "request", status: status}
	if c.fault != nil {
		k.code, k.level, k.message = c.fault.Code, zapcore.WarnLevel, "request failed"
		if c.fault.Status == statusClientGone {
			k.level, k.message = zapcore.InfoLevel, "client left"
		}
	}
	if c.aborted {
		k.level, k.message = zapcore.WarnLevel, "request aborted by its engine"
	}
	return k
}

// leftOut says how many lines a second was without.
func (l *accessLog) leftOut(total int, by []leftOut) {
	level := zapcore.InfoLevel
	counts := make([]zap.Field, 0, len(by))
	for _, b := range by {
		level = max(level, b.kind.level)
		counts = append(counts, zap.Int(b.kind.String(), b.n))
	}
	if entry := l.log.Check(level, "requests without a line of their own"); entry != nil {
		entry.Write(zap.Int("left_out", total), zap.Dict("by_status", counts...))
	}
}
