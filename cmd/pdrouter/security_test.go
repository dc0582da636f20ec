package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityPage: each test that docs/security.md names is there, and its
// configuration is one.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`((?:Test|Benchmark)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	tests := allTests(t)
	for _, name := range names {
		if !strings.Contains(tests, "func "+name[1]+"(") {
			t.Errorf("there is no %s", name[1])
		}
	}
	if len(names) < 15 {
		t.Errorf("found %d names of tests, want at least 15", len(names))
	}
	_, config, _ := strings.Cut(string(page), "```yaml\n")
	config, _, ok := strings.Cut(config, "```")
	if !ok {
		t.Fatal("found no configuration")
	}
	a := newAuthority(t, "a")
	handed := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", handed)
	a.issueTo(t, filepath.Join(handed, "cert.pem"), filepath.Join(handed, "key.pem"), "router")
	a.issueTo(t, filepath.Join(handed, "clients.pem"), filepath.Join(handed, "unused.pem"), "clients")
	for name, key := range map[string]string{"api-keys": "alice:" + aliceKey, "admin-keys": adminKey, "worker-key": workerKey} {
		if err := os.WriteFile(filepath.Join(handed, name), []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := load(t, "--config", writeSecret(t, "pdrouter.yaml", config))
	if err != nil || len(in.cfg.Router.APIKeys) != 1 || len(in.warnings) != 0 {
		t.Errorf("load = %d keys, %v, %v, want one and no complaint", len(in.cfg.Router.APIKeys), in.warnings, err)
	}
}

// allTests returns the text of all tests.
func allTests(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
