package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
)

// logsTimes returns how often the process has logged a message.
func (p *process) logsTimes(message string) int { return strings.Count(p.log(), `"msg":"`+message+`"`) }

// TestSnapshotOutlivesAKill: the file that a router leaves at its end serves the
// next one, and the one after that, if the next was killed.
func TestSnapshotOutlivesAKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	args := append(workerFlags(startEngine(t, sim.VLLMNixl, sim.Prefill, nil), startEngine(t, sim.VLLMNixl, sim.Decode, nil)), "--index-snapshot", file)
	run := func(knows int) *process {
		p := startServe(t, args...)
		if !eventually(func() bool { return p.logsTimes(known) == knows && p.logsTimes("worker ready") == 2 }) {
			t.Errorf("of %d workers is known what was, want %d", p.logsTimes(known), knows)
		}
		return p
	}
	read := func() []byte {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := run(0)
	if a := sendStep(newClient(t), first.base, completion(t, 0, prompt(1, 10_000), 1)); a.status != 200 {
		t.Fatalf("answer = %v", a.reply)
	}
	first.terminate(t)
	first.wantExit(t, 10*time.Second)
	left := read()

	second := run(2)
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-second.exited
	if !bytes.Equal(read(), left) {
		t.Error("a router that was killed has changed the file")
	}
	third := run(2)
	third.terminate(t)
	third.wantExit(t, 10*time.Second)
}
