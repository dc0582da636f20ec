package main

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// The forms of the log.
const (
	logAuto    = "auto"    // journal, console on a terminal, else json
	logConsole = "console" // for people: time, level, message, and what belongs to it as JSON
	logJSON    = "json"    // one object per line
	logJournal = "journal" // as console, without the time, which the journal has; each line with its priority
)

// logForms are the forms that an operator may choose.
func logForms() []string { return []string{logAuto, logConsole, logJSON, logJournal} }

// levelOf returns the level of that name.
func levelOf(name string) zapcore.Level {
	level, err := zapcore.ParseLevel(name)
	if err != nil {
		level = zapcore.InfoLevel // an unknown name has been refused by then
	}
	return level
}

// newLogger returns the daemon's logger, writing to w, which is stderr: systemd
// gives it to the journal. Its level may change.
func newLogger(level zapcore.LevelEnabler, cfg Config, w io.Writer) *zap.Logger {
	journal := isJournal(w)
	form := cfg.logForm(w, journal)
	encoder := newLineEncoder(newEncoder(form), journal || form == logJournal)
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}

// logForm returns the form of a log that is written to w.
func (c Config) logForm(w io.Writer, journal bool) string {
	file, isFile := w.(*os.File)
	switch {
	case c.LogJSON:
		return logJSON
	case c.LogFormat != logAuto:
		return c.LogFormat
	case journal:
		return logJournal
	case isFile && term.IsTerminal(int(file.Fd())): //nolint:gosec // a descriptor fits
		return logConsole
	default:
		return logJSON
	}
}

// checkLog reports two flags that contradict one another.
func (c Config) checkLog() error {
	if c.LogJSON && c.LogFormat != logAuto && c.LogFormat != logJSON {
		return fmt.Errorf("log-json: contradicts log-format %s; give one of them", c.LogFormat)
	}
	return nil
}

func newEncoder(form string) zapcore.Encoder {
	keys := zap.NewProductionEncoderConfig()
	keys.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	keys.EncodeDuration = zapcore.SecondsDurationEncoder
	if form == logJSON {
		return zapcore.NewJSONEncoder(keys)
	}
	keys.EncodeTime = zapcore.ISO8601TimeEncoder
	keys.EncodeDuration = zapcore.StringDurationEncoder
	if form == logJournal {
		keys.TimeKey, keys.LevelKey, keys.ConsoleSeparator = "", "", " "
	}
	return zapcore.NewConsoleEncoder(keys)
}

// isJournal reports whether w is the stream that systemd connected to the
// journal: it says which one that is, because the variable is inherited by
// processes whose stderr is something else (systemd.exec(5)).
func isJournal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	stream := os.Getenv("JOURNAL_STREAM") //nolint:forbidigo // systemd's own word, like LISTEN_FDS; it configures nothing
	return ok && stream != "" && stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}
