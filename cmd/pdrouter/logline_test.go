package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
)

// hostile are texts that would rather be more than a part of a line.
func hostile() []string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return []string{
		"a\n<0>the end is near", "a\r\n{\"level\":\"error\",\"msg\":\"forged\"}", "\x1b[2J\x1b]0;title\a", "\u009b2J\u0085", "\u2028\u2029", "\u202etxt.exe\u2066\u200f",
		"\x00", "\x7f", string(all), strings.Repeat("m", 1<<20), strings.Repeat("\x00", 1<<20), strings.Repeat("\xe2\x80", 3000), "\xc2", "\xe2\x80", "ok: ünïcödé 日本 \U0001f600",
	}
}

// TestALineIsALine: whatever a message or a field has, in each form.
func TestALineIsALine(t *testing.T) {
	for _, form := range []string{logJSON, logConsole, logJournal} {
		for _, text := range hostile() {
			cfg := DefaultConfig()
			cfg.LogFormat = form
			var out bytes.Buffer
			newLogger(levelOf(cfg.LogLevel), cfg, &out).With(zap.String("url", text)).Named(form).Info(text, zap.String("model", text), zap.Error(errors.New(text)))
			line := out.Bytes()
			if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
				t.Errorf("%s: %.80q makes %.300q", form, text, line)
			}
			if len(line) >= 48<<10 {
				t.Errorf("%s: %.80q makes a line of %d bytes", form, text, len(line))
			}
			for _, r := range string(line[:len(line)-1]) {
				if unicode.IsControl(r) && r != '\t' || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
					t.Errorf("%s: %.80q shows %U", form, text, r)
					break
				}
			}
			if form == logJSON && !json.Valid(line) {
				t.Errorf("%.80q makes %.300q, which is no JSON", text, line)
			}
			if form == logJournal && (!bytes.HasPrefix(line, []byte("<6>")) || !utf8.Valid(line) && utf8.ValidString(text)) {
				t.Errorf("%.80q makes %.300q", text, line)
			}
			if strings.HasPrefix(text, "ok") && bytes.Count(line, []byte(text)) != 4 {
				t.Errorf("%s: %q is not as it was in %q", form, text, line)
			}
		}
	}
}

func FuzzTame(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text[:min(len(text), 1000)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg := DefaultConfig()
		cfg.LogFormat = logJSON
		var out bytes.Buffer
		newLogger(levelOf(cfg.LogLevel), cfg, &out).Info(text, zap.String("x", text))
		if line := out.Bytes(); bytes.Count(line, []byte("\n")) != 1 || !json.Valid(line) {
			t.Errorf("%q makes %q", text, line)
		}
	})
}
