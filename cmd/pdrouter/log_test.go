package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLogger(t *testing.T) {
	cfg := DefaultConfig()
	cfg.LogLevel, cfg.LogJSON = "warn", true
	var out bytes.Buffer
	log := newLogger(cfg, &out)
	log.Info("below the level")
	log.Warn("worker not ready", zap.String("worker", "p0"))
	var line struct{ Level, Msg, Worker, TS string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("log is %q, want one JSON object: %v", out.String(), err)
	}
	if line.Level != "warn" || line.Msg != "worker not ready" || line.Worker != "p0" || line.TS == "" {
		t.Errorf("line is %+v", line)
	}

	out.Reset()
	cfg.LogJSON = false
	newLogger(cfg, &out).Error("for people")
	if got := out.String(); !strings.Contains(got, "error\tfor people") {
		t.Errorf("log is %q, want level and message between tabs", got)
	}
}
