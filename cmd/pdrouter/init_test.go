package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pdrouter/sim"
)

// Engines that run are asked what they are, and the configuration that comes of
// it is one that check takes.
func TestInitForEnginesThatRun(t *testing.T) {
	for _, tt := range []struct {
		dialect, prefill, decode string // what stands before the ports
		want                     string // a line of the configuration, or a part of the error
	}{
		{sim.SGLang, "", "", "dialect: sglang\n"},
		{sim.SGLang, "prefill=", "decode=127.0.0.1", "dialect: sglang\n"},
		{sim.SGLang, "decode=", "decode=", "it was said to be for decode, but it says that it is for prefill"},
		{sim.VLLMNixl, "prefill=", "decode=", "dialect: vllm-nixl\n"},
		{sim.VLLMNixl, "", "decode=", "vllm does not tell its role; say it, as in --probe prefill=PORTS"},
		{sim.VLLMNixl, "decode=", "decode=", "no prefill engine among those that were found"},
	} {
		t.Run(tt.dialect+" "+tt.prefill+" "+tt.decode, func(t *testing.T) {
			prefill, decode := startEngine(t, tt.dialect, sim.Prefill, nil), startEngine(t, tt.dialect, sim.Decode, nil)
			dir := t.TempDir()
			out, err := runCommand(t, "init", "--dir", dir, "--sys", dir,
				"--probe", tt.prefill+portOf(prefill.URL()), "--probe", tt.decode+portOf(decode.URL()))
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q\n%s", err, tt.want, out)
				}
				return
			}
			path := filepath.Join(dir, "pdrouter.yaml")
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), tt.want) {
				t.Fatalf("%v, want %q\n%s", err, tt.want, text)
			}
			line := "  - " + prefill.URL()
			if tt.dialect == sim.SGLang {
				line += fmt.Sprint(" ", prefill.BootstrapPort())
			}
			if !strings.Contains(string(text), line+"\n") {
				t.Errorf("no line %q\n%s", line, text)
			}
			if out, err := runCommand(t, "check", "--config", path); err != nil {
				t.Errorf("check: %v\n%s", err, out)
			}
		})
	}
}

func TestAsker(t *testing.T) {
	var out bytes.Buffer
	a := newAsker(strings.NewReader("nope\nvllm\n\n0-x\n 4-7 \nyes\n"), &out)
	if got := a.oneOf("Engine", "sglang", "vllm"); got != "vllm" {
		t.Errorf("engine = %q", got)
	}
	if got := a.text("GPUs", "0-3", isRange); got != "0-3" {
		t.Errorf("GPUs = %q", got)
	}
	if got := a.text("GPUs", "0-3", isRange); got != "4-7" {
		t.Errorf("GPUs = %q", got)
	}
	if !a.yes("Write?") {
		t.Error("yes is no")
	}
	if a.text("More", "", notEmpty); a.err == nil {
		t.Error("who has left is not noticed")
	}
	if got := out.String(); !strings.HasPrefix(got, "Engine (sglang, vllm) [sglang]:   one of sglang, vllm\nEngine") {
		t.Errorf("asked %q", got)
	}
}
