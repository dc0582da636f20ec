package main

import (
	"os"
	"strings"
	"testing"
)

// What docs/operations.md shows are commands that there are, with flags and
// arguments that they take.
func TestOperationsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, line := range commands(string(text)) {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(strings.ReplaceAll(line, "'", ""))
		if words[0] != "pdrouter" {
			continue
		}
		tried++
		cmd, args, err := newRootCommand(words[1:]).Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		if err == nil && cmd.Args != nil {
			err = cmd.Args(cmd, cmd.Flags().Args())
		}
		if err != nil || cmd.Name() != words[1] {
			t.Errorf("%s: %v", line, err)
		}
	}
	if tried < 15 {
		t.Errorf("%d commands, too few to be the page", tried)
	}
}
