package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestOfficialClients runs the clients that people use against a router with
// simulated engines, in either dialect: streamed or not, the text is the one
// that the prompt has, and errors arrive as the clients' own types.
func TestOfficialClients(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	clients := []struct{ name, needs, program, script string }{
		{"python", ".venv/ok", filepath.Join(root, ".venv/bin/python"), "client.py"},
		{"node", ".cache/node/ok", "node", "client.mjs"},
	}
	for _, dialect := range []string{"sglang", "vllm-nixl"} {
		base := startFleet(t, dialect)
		for _, c := range clients {
			t.Run(dialect+" "+c.name, func(t *testing.T) {
				if _, err := os.Stat(filepath.Join(root, c.needs)); err != nil {
					missing(t, c.needs+" is missing: run `make e2e-setup`")
				}
				checkClient(t, c.program, scriptFor(t, root, c.script), base)
			})
		}
	}
}

// scriptFor returns the path of a client's script: node looks for packages
// beside the script, so that one is copied to where they are.
func scriptFor(t *testing.T, root, name string) string {
	t.Helper()
	path := filepath.Join("testdata/clients", name)
	if filepath.Ext(name) != ".mjs" {
		return path
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(root, ".cache/node", name)
	if err := os.WriteFile(beside, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return beside
}

// checkClient runs a client's script and compares what it was answered.
func checkClient(t *testing.T, program, script, base string) {
	t.Helper()
	const prompt = "Which river runs through the old town?"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, script, base+"/v1", "sim-model", prompt).Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("%s: %v\n%s", script, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var got struct {
		Models           []string
		Chat             string
		ChatStream       []string `json:"chat_stream"`
		Usage            int
		Completion       string
		CompletionStream []string `json:"completion_stream"`
		UnknownModel     string   `json:"unknown_model"`
		Several          string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s printed %s: %v", script, out, err)
	}
	chat := expect(t, "/v1/chat/completions", map[string]any{"model": "sim-model", "max_tokens": 12, "messages": []any{map[string]any{"role": "user", "content": prompt}}})
	text := expect(t, "/v1/completions", map[string]any{"model": "sim-model", "max_tokens": 12, "prompt": prompt})
	if got.Chat != chat || strings.Join(got.ChatStream, "") != chat || len(got.ChatStream) != 12 {
		t.Errorf("chat = %q, streamed %q, want %q in 12 parts", got.Chat, got.ChatStream, chat)
	}
	if got.Completion != text || strings.Join(got.CompletionStream, "") != text {
		t.Errorf("completion = %q, streamed %q, want %q", got.Completion, got.CompletionStream, text)
	}
	if got.Usage != 12 || !reflect.DeepEqual(got.Models, []string{"sim-model"}) {
		t.Errorf("usage = %d, models %q, want 12 and sim-model", got.Usage, got.Models)
	}
	if got.UnknownModel != "model_not_found" || got.Several == "" {
		t.Errorf("codes of errors = %q for an unknown model, %q for n=2", got.UnknownModel, got.Several)
	}
}
