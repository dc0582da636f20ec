package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestFlagsPage compares docs/flags.md with the flags of serve. After a change
// of flags: go test ./cmd/pdrouter -run FlagsPage -update.
func TestFlagsPage(t *testing.T) {
	const path = "../../docs/flags.md"
	want := flagsPage()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s does not show the flags of serve; run this test with -update and look at the change", path)
	}
}

// flagsPage is docs/flags.md.
func flagsPage() string {
	var b strings.Builder
	fmt.Fprintln(&b, "# Flags\n\nEach is also a key of the file that `--config` names; a flag overrides the file. Those with a yes under reload are put in force by [a reload](reload.md); the others need a restart. This page is made from the flags of `pdrouter serve` by a test.")
	flags, in := serveFlags()
	group := ""
	fmt.Fprintln(&b, "\n## Acted on")
	for _, s := range in.settings {
		if s.standing != enforced {
			continue
		}
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "\n### %s\n\n| flag | default | reload | meaning |\n|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", usageCell(flags.Lookup(s.name)), defaultCell(flags.Lookup(s.name)), reloadCell(s), cell(s.usage))
	}
	fmt.Fprintf(&b, "| `--config file` | | | %s |\n", "YAML file with settings under the names of the flags; a flag overrides it")
	fmt.Fprint(&b, "\n## Accepted, not acted on in this release\n\nThey are typed and checked, and each one that is given is warned of. The defaults are smg's.\n\n| flag | default | meaning | until then |\n|---|---|---|---|\n")
	for _, s := range in.settings {
		if s.standing == later {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", usageCell(flags.Lookup(s.name)), defaultCell(flags.Lookup(s.name)), cell(s.usage), cell(s.reason))
		}
	}
	fmt.Fprint(&b, "\n## Accepted, not needed\n\nsmg has them. Each one that is given is warned of; its value is not looked at.\n\n| flags | why nothing is done |\n|---|---|\n")
	for _, s := range surpluses() {
		names := strings.Fields(strings.Join([]string{s.switches, s.ones, s.many}, " "))
		fmt.Fprintf(&b, "| `--%s` | %s |\n", strings.Join(names, "` `--"), cell(s.reason))
	}
	return b.String()
}

func usageCell(f *pflag.Flag) string {
	if takes(f) == takesNone {
		return "`--" + f.Name + "`"
	}
	return "`--" + f.Name + " " + cell(f.Value.Type()) + "`"
}

func defaultCell(f *pflag.Flag) string {
	if f.DefValue == "" {
		return ""
	}
	return "`" + cell(f.DefValue) + "`"
}

func reloadCell(s setting) string {
	if s.reloads {
		return "yes"
	}
	return ""
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// TestSMGFlagsAreKnown holds every flag of smg 1.13, as its own --help prints
// them, and those that only smg-compat names, against ours.
func TestSMGFlagsAreKnown(t *testing.T) {
	text, err := os.ReadFile("testdata/smg-1.13-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	// In smg-compat sections 1.1 to 1.9, and no more in smg 1.13's launcher.
	older := `
runtime-worker-threads one
eviction-interval one
drain-settle-secs one
engine-metrics none
jwt-role-claim one
disable-audit-logging none
runtime one
pd-pairing-mode one
kv-indexer-ttl-secs one
kv-indexer-max-entries one
`
	// Ours says more of what may follow: a word is a stray one, not a second value.
	ours := map[string]arity{"prefill": takesPair}
	arities := map[string]arity{"none": takesNone, "one": takesOne, "many": takesMany}
	flags, _ := serveFlags()
	for line := range strings.Lines(string(text) + older) {
		name, follows, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" {
			continue
		}
		want := arities[follows]
		if a, ok := ours[name]; ok {
			want = a
		}
		f := flags.Lookup(name)
		if f == nil {
			t.Errorf("--%s of smg is not known", name)
			continue
		}
		if got := takes(f); got != want {
			t.Errorf("--%s takes %d, want %d", name, got, want)
		}
	}
}

func TestEverySettingSaysWhatItIs(t *testing.T) {
	in := newIntake()
	seen := map[string]bool{}
	for _, s := range in.settings {
		if seen[s.name] {
			t.Errorf("--%s stands in the table twice", s.name)
		}
		seen[s.name] = true
		switch {
		case s.standing != unneeded && (s.usage == "" || s.value == nil):
			t.Errorf("--%s has no meaning or no value", s.name)
		case s.standing != enforced && s.reason == "":
			t.Errorf("--%s does not say why it is not acted on", s.name)
		case s.standing == enforced && s.group == "":
			t.Errorf("--%s has no heading", s.name)
		case s.takes == asValue:
			t.Errorf("--%s does not say what follows it", s.name)
		}
	}
	for _, name := range reloadable() {
		if !seen[name] {
			t.Errorf("--%s is said to reload, and is no setting", name)
		}
	}
}

// TestReloadPageNamesWhatNeedsARestart, and nothing else.
func TestReloadPageNamesWhatNeedsARestart(t *testing.T) {
	text, err := os.ReadFile("../../docs/reload.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "## What needs a restart")
	for _, s := range newIntake().settings {
		if s.standing != enforced || s.hint {
			continue
		}
		if named := strings.Contains(part, "`--"+s.name+"`"); named == s.reloads {
			t.Errorf("--%s: named as needing a restart: %v, reloads: %v", s.name, named, s.reloads)
		}
	}
}
