package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestExamplesInDocs runs pdrouter check with every command line of pdrouter
// serve that the docs show, each of pdrouter replay, and looks for every make
// target.
func TestExamplesInDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	serves, makes, replayed := 0, 0, 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commands(string(text)) {
			line, _, _ = strings.Cut(line, " #") // a remark
			if words := strings.Fields(strings.TrimPrefix(line, "bin/")); len(words) > 1 && words[0]+words[1] == "pdrouterreplay" {
				replayed++
				tryReplay(t, filepath.Base(page), words[2:])
			}
			args, ok := strings.CutPrefix(strings.TrimPrefix(line, "bin/"), "pdrouter serve ")
			if !ok {
				continue
			}
			serves++
			cmd := newRootCommand(append([]string{"check"}, strings.Fields(args)...))
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			if err := cmd.Execute(); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
			}
		}
		for _, m := range regexp.MustCompile("`?make ([a-z][a-z-]*)").FindAllStringSubmatch(string(text), -1) {
			makes++
			if !regexp.MustCompile(`(?m)^`+m[1]+`:`).Match(makefile) && strings.HasPrefix(m[0], "`") {
				t.Errorf("%s names make %s, which is no target", filepath.Base(page), m[1])
			}
		}
	}
	if serves < 3 || makes < 3 || replayed < 3 {
		t.Errorf("found %d command lines of pdrouter serve, %d of replay and %d of make, want at least 3 of each", serves, replayed, makes)
	}
}

// tryReplay runs a command line of pdrouter replay; only its flags are looked
// at if it needs a router.
func tryReplay(t *testing.T, page string, args []string) {
	t.Helper()
	if slices.Contains(args, "--live") {
		if err := newReplayCommand().ParseFlags(args); err != nil {
			t.Errorf("%s: replay %v: %v", page, args, err)
		}
		return
	}
	brief := append(args, "--duration", "30s", "--seeds", "1")
	if out, complaints, err := replays(t.Context(), "", brief...); err != nil || out == "" || complaints != "" {
		t.Errorf("%s: replay %v: %v, %q", page, args, err, complaints)
	}
}

// commands returns the lines that begin with a dollar sign, each with the
// lines that continue it.
func commands(text string) []string {
	var out []string
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		if cmd, ok := strings.CutPrefix(line, "$ "); ok {
			out = append(out, strings.TrimSpace(cmd))
		}
	}
	return out
}
