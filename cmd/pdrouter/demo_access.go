package main

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// A passage is what the router's access log says of one request.
type passage struct {
	ID, Message, Prefill, Decode, Path, Fault string

	Room     uint64
	Status   int64
	TTFT     time.Duration
	Duration time.Duration
}

// An accessLog is a logger's core that keeps what the router logs of requests:
// the demo shows where they went by it, and knows nothing else of that.
type accessLog struct {
	mu       sync.Mutex
	passages map[string]passage // by request id
	warnings []string
	follow   func(passage) // is told of each request instead; may be nil
}

// maxWarnings bounds how many warnings are kept, the first ones.
const maxWarnings = 20

func newAccessLog() *accessLog { return &accessLog{passages: map[string]passage{}} }

// Enabled implements zapcore.LevelEnabler.
func (a *accessLog) Enabled(l zapcore.Level) bool { return l >= zapcore.InfoLevel }

// With implements zapcore.Core. Loggers with fields of their own write here, too.
func (a *accessLog) With([]zapcore.Field) zapcore.Core { return a }

// Check implements zapcore.Core.
func (a *accessLog) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if a.Enabled(e.Level) {
		return ce.AddCore(e, a)
	}
	return ce
}

// Write implements zapcore.Core.
func (a *accessLog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	p := readPassage(e.Message, fields)
	a.mu.Lock()
	follow := a.follow
	if p.ID != "" && follow == nil {
		a.passages[p.ID] = p
	}
	if e.Level >= zapcore.WarnLevel && len(a.warnings) < maxWarnings {
		enc := zapcore.NewMapObjectEncoder()
		for _, f := range fields {
			f.AddTo(enc)
		}
		a.warnings = append(a.warnings, fmt.Sprint(e.Message, " ", enc.Fields))
	}
	a.mu.Unlock()
	if follow != nil && p.ID != "" {
		follow(p)
	}
	return nil
}

// Sync implements zapcore.Core.
func (a *accessLog) Sync() error { return nil }

// readPassage reads the fields of a line. Its ID is empty if the line is of no
// request.
func readPassage(message string, fields []zapcore.Field) passage {
	p := passage{Message: message}
	for _, f := range fields {
		switch f.Key {
		case "request_id":
			p.ID = f.String
		case "path":
			p.Path = f.String
		case "prefill":
			p.Prefill = f.String
		case "decode":
			p.Decode = f.String
		case "room":
			p.Room = uint64(f.Integer)
		case "status":
			p.Status = f.Integer
		case "ttft":
			p.TTFT = time.Duration(f.Integer)
		case "duration":
			p.Duration = time.Duration(f.Integer)
		case "error":
			p.Fault = fmt.Sprint(f.Interface)
		}
	}
	return p
}

// take returns what was logged of a request, and forgets it.
func (a *accessLog) take(id string) (passage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.passages[id]
	delete(a.passages, id)
	if !ok {
		return p, fmt.Errorf("the router's access log has no line of request %s", id)
	}
	return p, nil
}

// complaints returns the router's warnings, if it had any.
func (a *accessLog) complaints() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.warnings...)
}

// tell makes follow be told of each request from now on; nothing is kept.
func (a *accessLog) tell(follow func(passage)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.follow, a.passages = follow, map[string]passage{}
}
