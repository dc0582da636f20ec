package main

import (
	"strings"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// maxLogText bounds what a line has of one text, in bytes: the journal cuts a
// line in two beyond 48 KiB (LineMax=). A control character would take six bytes,
// so that texts longer than fewLogText lose theirs.
const (
	maxLogText = 4 << 10
	fewLogText = 512
)

// A lineEncoder makes one line of each event, whatever is in it: engines and
// clients may put anything into names and errors, and a line that they could
// begin would be one that they wrote. If priorities, each says how urgent it is
// in the way that sd-daemon(3) describes.
type lineEncoder struct {
	zapcore.Encoder
	pool       buffer.Pool
	priorities bool
}

func newLineEncoder(of zapcore.Encoder, priorities bool) *lineEncoder {
	return &lineEncoder{Encoder: of, pool: buffer.NewPool(), priorities: priorities}
}

// Clone implements zapcore.Encoder.
func (e *lineEncoder) Clone() zapcore.Encoder {
	return &lineEncoder{Encoder: e.Encoder.Clone(), pool: e.pool, priorities: e.priorities}
}

// AddString implements zapcore.ObjectEncoder, for the fields of a logger.
func (e *lineEncoder) AddString(key, text string) { e.Encoder.AddString(key, bounded(text)) }

// EncodeEntry implements zapcore.Encoder.
func (e *lineEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	entry.Message = bounded(strings.TrimSpace(entry.Message))
	own := false
	for i := range fields {
		text := textOf(&fields[i])
		if len(text) <= fewLogText {
			continue
		}
		if !own {
			fields, own = append([]zapcore.Field(nil), fields...), true // they are the caller's
		}
		fields[i] = zapcore.Field{Key: fields[i].Key, Type: zapcore.StringType, String: bounded(text)}
	}
	line, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil {
		return nil, err
	}
	tame(line.Bytes())
	if !e.priorities {
		return line, nil
	}
	defer line.Free()
	out := e.pool.Get()
	out.AppendString(priority(entry.Level))
	_, err = out.Write(line.Bytes())
	return out, err
}

// textOf returns the text of a field that may be of any length, if it is one.
func textOf(f *zapcore.Field) string {
	if f.Type == zapcore.StringType {
		return f.String
	}
	if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
		return err.Error()
	}
	return ""
}

func bounded(text string) string {
	if len(text) <= fewLogText {
		return text
	}
	end := ""
	if len(text) > maxLogText {
		text, end = text[:maxLogText], "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?")) + end
}

// priority returns the prefix by which systemd knows how urgent a line is. It
// takes it off.
func priority(level zapcore.Level) string {
	switch {
	case level >= zapcore.DPanicLevel:
		return "<2>"
	case level == zapcore.ErrorLevel:
		return "<3>"
	case level == zapcore.WarnLevel:
		return "<4>"
	case level == zapcore.InfoLevel:
		return "<6>"
	}
	return "<7>"
}

// tame overwrites what would end a line or steer a terminal, but for the end of
// the line and tabs: the control characters of ASCII and of Latin-1, Unicode's
// ends of lines, and what changes the direction in which text is shown. Inside
// JSON, where the first of them are escaped, it leaves JSON.
func tame(line []byte) {
	for i := 0; i < len(line)-1; i++ {
		n := 0
		switch c := line[i]; {
		case c >= ' ' && c < 0x7f, c == '\t':
		case c < ' ', c == 0x7f:
			n = 1
		case c == 0xc2 && line[i+1] < 0xa0:
			n = 2
		case c == 0xe2 && i+2 < len(line) && steers(line[i+1], line[i+2]):
			n = 3
		}
		for ; n > 0; n-- {
			line[i+n-1] = '?'
		}
	}
}

// steers reports whether these bytes behind an e2 make one of U+200E, U+200F,
// U+2028 to U+202E and U+2066 to U+2069.
func steers(b, c byte) bool {
	switch b {
	case 0x80:
		return c == 0x8e || c == 0x8f || c >= 0xa8 && c <= 0xae
	case 0x81:
		return c >= 0xa6 && c <= 0xa9
	}
	return false
}
