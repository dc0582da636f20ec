package main

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger returns the daemon's logger, writing to w, which is stderr: systemd
// gives it to the journal.
func newLogger(cfg Config, w io.Writer) *zap.Logger {
	level, err := zapcore.ParseLevel(cfg.LogLevel)
	if err != nil {
		level = zapcore.InfoLevel // an unknown name has been refused by then
	}
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
