package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pdrouter/sim"
)

// TestReloadCommand and check --diff, at a socket.
func TestReloadCommand(t *testing.T) {
	f := newReloadedFleet(t, sim.VLLMNixl)
	f.workers(f.prefill, f.decode[:1])
	f.set("port", "1", "policy", "random", "api-key", "[secret-key]")
	want := "port: 0 -> 1  (needs a restart)\npolicy: cache_aware -> random\napi-key: none -> ***\nworker removed: decode " + f.decode[1].URL() + "\n"
	if out, err := runCommand(t, "check", "--config", f.path, "--diff"); err != nil || out != want {
		t.Errorf("check --diff says %q, %v; want %q", out, err, want)
	}
	if out, err := runCommand(t, "check", "--config", f.path, "--diff", "--json"); err != nil || !strings.Contains(out, `"needs_restart":true`) || strings.Contains(out, "secret-key") {
		t.Errorf("check --diff --json says %q, %v", out, err)
	}
	if f.current.Load().Policy != "cache_aware" {
		t.Error("to compare has changed something")
	}
	if out, err := runCommand(t, "reload", "--admin-socket", f.socket); err != nil || out != want {
		t.Errorf("reload says %q, %v; want %q", out, err, want)
	}
	if out, err := runCommand(t, "reload", "--admin-socket", f.socket, "--json"); err != nil || !strings.Contains(out, `"workers_removed":[]`) {
		t.Errorf("reload --json says %q, %v", out, err)
	}
	f.set("port", "0")
	if out, err := runCommand(t, "check", "--config", f.path, "--diff"); err != nil || out != "Nothing has changed.\n" {
		t.Errorf("check --diff says %q, %v", out, err)
	}
	f.set("policy", "none", "queue-size", "x")
	_, err := runCommand(t, "reload", "--admin-socket", f.socket)
	if fault := (configFault{}); err == nil || len(faultLines(err)) != 2 || errors.As(err, &fault) {
		t.Errorf("reload of an invalid file: %v; want two lines, and status 1", err)
	}
	for _, line := range f.logs.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "secret-key") {
			t.Errorf("the log tells the key: %s", text)
		}
	}
}
