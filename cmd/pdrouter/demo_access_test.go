package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func TestAccessLog(t *testing.T) {
	a := newAccessLog()
	log := zap.New(a)
	log.Debug("request", zap.String("request_id", "debug"))
	log.Info("serving", zap.String("addr", "127.0.0.1:1"))
	log.Named("router").With(zap.String("component", "x")).Info("request", zap.String("request_id", "r1"), zap.String("path", "/v1/completions"), zap.Int("status", 200),
		zap.String("prefill", "prefill-1"), zap.String("decode", "decode-0"), zap.Uint64("room", 1<<62+7), zap.Duration("ttft", time.Second), zap.Duration("duration", 2*time.Second))
	log.Warn("request failed", zap.String("request_id", "r2"), zap.Int("status", 502), zap.Error(errors.New("engine died")))

	want := passage{ID: "r1", Message: "request", Path: "/v1/completions", Prefill: "prefill-1", Decode: "decode-0", Room: 1<<62 + 7, Status: 200, TTFT: time.Second, Duration: 2 * time.Second}
	if got, err := a.take("r1"); err != nil || got != want {
		t.Errorf("take(r1) = %+v, %v, want %+v", got, err, want)
	}
	if _, err := a.take("r1"); err == nil {
		t.Error("a line was taken twice")
	}
	if got, err := a.take("r2"); err != nil || got.Fault != "engine died" || got.Status != 502 {
		t.Errorf("take(r2) = %+v, %v", got, err)
	}
	if _, err := a.take("debug"); err == nil {
		t.Error("a debug line was kept")
	}
	if w := a.complaints(); len(w) != 1 || !strings.Contains(w[0], "request failed") || !strings.Contains(w[0], "engine died") {
		t.Errorf("complaints = %q", w)
	}

	var told []string
	a.tell(func(p passage) { told = append(told, p.ID) })
	log.Info("request", zap.String("request_id", "r3"))
	if _, err := a.take("r3"); err == nil || len(told) != 1 || told[0] != "r3" {
		t.Errorf("told %q, and take(r3) = %v, want it told and not kept", told, err)
	}
}
