package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pdrouter/bench"
)

func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTableOfFiveMinutes(t *testing.T) {
	text := printed(t, "-seeds", "1")
	for _, want := range []string{"Five minutes of the conversation trace", "Others, as published", "ours, bound late ", "passthrough "} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "reached\n") || strings.Contains(text, "MISSED") || strings.Contains(text, "synthetic: hit") {
		t.Errorf("there is a verdict, for which the whole traces are needed:\n%s", text)
	}
}

// TestTableOfWholeTraces has a minute in place of both.
func TestTableOfWholeTraces(t *testing.T) {
	reqs, err := bench.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, r := range bench.Before(reqs, time.Minute) {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"conversation_trace.jsonl", "synthetic_trace.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := printed(t, "-traces", dir, "-seeds", "1")
	for _, want := range []string{" (0.113)", "MISSED: hit, TTFT", "synthetic hit", "bound late, a worker is flushed", "≤1.05", "The longest TTFT", "lines are as they are to be."} {
		if !strings.Contains(said, want) {
			t.Errorf("the table does not say %q:\n%s", want, said)
		}
	}
}

func TestRunNamesWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-seeds", "0"}, "-seeds: 0"},
		{[]string{"traces"}, `unexpected argument "traces"`},
		{[]string{"-traces", t.TempDir()}, "conversation_trace.jsonl"},
	} {
		if err := run(tt.args, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run(%q) = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
}
