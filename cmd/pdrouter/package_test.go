package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manDir is where tools/package.sh wants the man pages. They are made by a test
// so that what makes them is no part of the program.
var manDir = flag.String("man", "", "write the man pages into this directory")

// TestManPages: each command that --help shows has a page, with its flags.
func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := newRootCommand(nil)
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd()
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "pdrouter", Manual: "pdrouter"}, dir); err != nil {
		t.Fatal(err)
	}
	var want func(cmd *cobra.Command)
	want = func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(page), ".SH SYNOPSIS") {
			t.Errorf("%s: %v, %.80q", name, err, page)
		}
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				want(c)
			}
		}
	}
	want(root)
	serve, err := os.ReadFile(filepath.Join(dir, "pdrouter-serve.1"))
	if err != nil || !strings.Contains(string(serve), `\fB--prefill\fP`) {
		t.Errorf("pdrouter-serve.1 has no --prefill: %v", err)
	}
}

const packagedConfig = "../../deploy/package/pdrouter.yaml"

// TestPackagedConfig: what a package puts into /etc is taken as it is, and each
// setting that it shows behind a # is one.
func TestPackagedConfig(t *testing.T) {
	checks := func(path string) error {
		cmd := newRootCommand([]string{"check", "--config", path})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		return cmd.Execute()
	}
	if err := checks(packagedConfig); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(packagedConfig)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^#([a-z-]+: )`)
	if n := len(shown.FindAll(text, -1)); n < 5 {
		t.Errorf("it shows %d settings behind a #, want 5 at least", n)
	}
	all := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(all, shown.ReplaceAll(text, []byte("$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, fault := range faultLines(checks(all)) {
		if !strings.Contains(fault, "/run/credentials/") { // there are none here
			t.Error(fault)
		}
	}
}
