package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// units are the unit files beside this package, and the examples.
func units(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.service", "*.socket", "*.target", "examples/engines/*.service"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		all = append(all, found...)
	}
	return all
}

// installed puts the units, each with its programs in place, into a directory.
func installed(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, unit := range units(t) {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		there := strings.ReplaceAll(string(text), "/usr/bin/pdrouter", "/usr/bin/env") // the tool looks for it
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(unit)), []byte(there), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func analyze(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze on this host")
	}
	text, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	return string(text), err
}

// TestUnitsAreWhatSystemdReads: no word that it does not know, nothing that it
// would only warn of.
func TestUnitsAreWhatSystemdReads(t *testing.T) {
	dir := installed(t)
	for _, unit := range units(t) {
		name := filepath.Join(dir, strings.Replace(filepath.Base(unit), "@.", "@0.", 1))
		out, err := analyze(t, "verify", "--man=no", name)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "pdrouter") || strings.Contains(line, "sglang") || strings.Contains(line, "vllm") {
				t.Errorf("%s: %s", unit, strings.TrimSpace(line))
			}
		}
		if err != nil {
			t.Errorf("verify %s: %v\n%s", unit, err, out)
		}
	}
}

// maxExposure is what systemd-analyze security may say of the service at most.
const maxExposure = 1.5

func TestExposure(t *testing.T) {
	dir := installed(t)
	for _, unit := range []string{"pdrouter.service", "pdrouter@.service"} {
		out, err := analyze(t, "security", "--offline=yes", "--threshold=15", filepath.Join(dir, unit))
		if err != nil {
			t.Fatalf("%s: %v\n%s", unit, err, out)
		}
		line := regexp.MustCompile(`Overall exposure level for \S+: (\d+\.\d+)`).FindStringSubmatch(out)
		if line == nil {
			t.Fatalf("%s has no line for the whole:\n%s", unit, out)
		}
		level, err := strconv.ParseFloat(line[1], 64)
		if t.Log(line[0]); err != nil || level > maxExposure {
			t.Errorf("%s: %s, want %v at most", unit, line[0], maxExposure)
		}
	}
}

// TestTemplateIsTheService, but for what several on a host must not share.
func TestTemplateIsTheService(t *testing.T) {
	read := func(unit string) []string {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "[Unit]")
		return strings.Split(body, "\n")
	}
	differs := regexp.MustCompile(`^(Description|ExecStart|ExecReload|User|RuntimeDirectory|StateDirectory|Also)=|^#   tls-|/run/credentials/`)
	keep := func(lines []string) string {
		var kept []string
		for _, line := range lines {
			if !differs.MatchString(line) {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "\n")
	}
	if one, many := keep(read("pdrouter.service")), keep(read("pdrouter@.service")); one != many {
		t.Errorf("pdrouter.service has\n%s\npdrouter@.service has\n%s", one, many)
	}
}
