package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
)

func TestLogger(t *testing.T) {
	cfg := DefaultConfig()
	cfg.LogLevel, cfg.LogJSON = "warn", true
	var out bytes.Buffer
	log := newLogger(levelOf(cfg.LogLevel), cfg, &out)
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
	cfg.LogJSON, cfg.LogFormat = false, logConsole
	newLogger(levelOf(cfg.LogLevel), cfg, &out).Error("for people")
	if got := out.String(); !strings.Contains(got, "error\tfor people") {
		t.Errorf("log is %q, want level and message between tabs", got)
	}
}

// stream returns both ends of a stream socket, which is what the journal gives a
// service as its stderr.
func stream(t *testing.T) (written *os.File, read *bufio.Reader) {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	files := [2]*os.File{os.NewFile(uintptr(ends[0]), "written"), os.NewFile(uintptr(ends[1]), "read")}
	t.Cleanup(func() { files[0].Close(); files[1].Close() })
	return files[0], bufio.NewReader(files[1])
}

// nameOf returns what JOURNAL_STREAM says of a file.
func nameOf(t *testing.T, f *os.File) string {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &s); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}

// TestFormOfTheLog is about what decides it: flags, and whether stderr is the
// journal.
func TestFormOfTheLog(t *testing.T) {
	const asJSON, asConsole, asJournal = `{"level":"warn",`, "\twarn\tthere\t", `<4>there {"n": 1}` + "\n"
	tests := []struct {
		name, form, journal string // journal: what systemd says, % being the stream
		json                bool
		begins, has         string
	}{
		{"into a pipe", logAuto, "", false, asJSON, ""},
		{"into the journal", logAuto, "%", false, asJournal, ""},
		{"of a process whose parent's was the journal", logAuto, "8:123", false, asJSON, ""},
		{"of one that is told nonsense", logAuto, "x", false, asJSON, ""},
		{"JSON in the journal", logAuto, "%", true, "<4>" + asJSON, ""},
		{"JSON by the other name", logJSON, "%", false, "<4>" + asJSON, ""},
		{"smg's flag", logAuto, "", true, asJSON, ""},
		{"for people", logConsole, "", false, "2", asConsole},
		{"as in the journal", logJournal, "", false, asJournal, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, r := stream(t)
			t.Setenv("JOURNAL_STREAM", strings.ReplaceAll(tt.journal, "%", nameOf(t, w)))
			cfg := DefaultConfig()
			cfg.LogFormat, cfg.LogJSON = tt.form, tt.json
			newLogger(levelOf(cfg.LogLevel), cfg, w).Warn("there", zap.Int("n", 1))
			line, err := r.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, tt.begins) || !strings.Contains(line, tt.has) {
				t.Errorf("the line is %q (%v), want %q", line, err, tt.begins+tt.has)
			}
		})
	}
}

func TestContradictingFormsAreAFault(t *testing.T) {
	c := DefaultConfig()
	c.LogJSON, c.LogFormat = true, logConsole
	if err := c.checkLog(); err == nil {
		t.Error("--log-json and --log-format console are taken together")
	}
	if c.LogFormat = logJSON; c.checkLog() != nil {
		t.Error("--log-json and --log-format json are no contradiction")
	}
}

// TestPriorities: a service's lines have the urgency that the journal filters by.
func TestPriorities(t *testing.T) {
	cfg := DefaultConfig()
	cfg.LogFormat, cfg.LogLevel = logJournal, "debug"
	var out bytes.Buffer
	log := newLogger(levelOf(cfg.LogLevel), cfg, &out).Named("http").With(zap.String("worker", "p0"))
	log.Debug("a")
	log.Info("b")
	log.Warn("c")
	log.Error("d")
	want := `<7>http a {"worker": "p0"}` + "\n" + `<6>http b {"worker": "p0"}` + "\n" + `<4>http c {"worker": "p0"}` + "\n" + `<3>http d {"worker": "p0"}` + "\n"
	if out.String() != want {
		t.Errorf("the log is %q, want %q", out.String(), want)
	}
}

// TestFaultsAtStartHavePriority: what a service says before it has a log.
func TestFaultsAtStartHavePriority(t *testing.T) {
	w, r := stream(t)
	t.Setenv("JOURNAL_STREAM", nameOf(t, w))
	cmd := exec.CommandContext(t.Context(), "pdrouter", "serve", "--port", "70000")
	cmd.Stderr = w
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitConfig {
		t.Fatalf("it ended with %v, want status %d", err, exitConfig)
	}
	w.Close()
	text, _ := io.ReadAll(r)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "<3>pdrouter: ") {
			t.Errorf("the line is %q", line)
		}
	}
	if len(text) == 0 {
		t.Error("nothing was said")
	}
}
