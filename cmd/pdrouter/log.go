package main

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger returns the daemon's logger, writing to w, which is stderr: systemd
// gives it to the journal.
func newLogger(cfg Config, w io.Writer) *zap.Logger {
	return newLoggerAt(levelOf(cfg.LogLevel), cfg, w)
}

// levelOf returns the level of that name.
func levelOf(name string) zapcore.Level {
	level, err := zapcore.ParseLevel(name)
	if err != nil {
		level = zapcore.InfoLevel // an unknown name has been refused by then
	}
	return level
}

// newLoggerAt is newLogger with a level that may change.
func newLoggerAt(level zapcore.LevelEnabler, cfg Config, w io.Writer) *zap.Logger {
	keys := zap.NewProductionEncoderConfig()
	keys.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	keys.EncodeDuration = zapcore.SecondsDurationEncoder
	encoder := zapcore.NewJSONEncoder(keys)
	if !cfg.LogJSON {
		keys.EncodeTime = zapcore.ISO8601TimeEncoder
		keys.EncodeDuration = zapcore.StringDurationEncoder
		encoder = zapcore.NewConsoleEncoder(keys)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}
