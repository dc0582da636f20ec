package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExamplesInDocs runs pdrouter check with every command line of pdrouter
// serve that the docs show, and make -n with every make target.
func TestExamplesInDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	serves, makes := 0, 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commands(string(text)) {
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
	if serves < 3 || makes < 3 {
		t.Errorf("found %d command lines of pdrouter serve and %d of make, want at least 3 of each", serves, makes)
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
