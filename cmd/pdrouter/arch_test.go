package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "pdrouter/"

// free are the third-party modules that have no home.
var free = []string{logs, "golang.org/x/sync"}

const logs = "go.uber.org/zap"

// silent packages do not log: they return what there is to say.
var silent = []string{"record", "keys", "tracing", "workers", "transfer", "policy", "metrics", "exchange", "sim", "survey", "setup", "doctor"}

// allowed is the map of ARCHITECTURE.md: what each package may import besides
// the standard library and what is free. Arrows point down: nothing imports
// what stands above it.
var allowed = map[string][]string{
	"cmd/pdrouter":     {"*"},
	"admin":            {"router", "record", "keys", "health", "workers", "policy", "metrics", "github.com/go-chi/chi"},
	"router":           {"record", "keys", "tracing", "transfer", "exchange", "workers", "policy", "metrics", "github.com/go-chi/chi", "github.com/go-chi/cors"},
	"health":           {"workers", "exchange", "metrics", "github.com/sony/gobreaker"},
	"policy":           {"workers", "github.com/cespare/xxhash"},
	"transfer":         {"workers"},
	"workers":          {"exchange", "metrics", "github.com/go-zeromq/zmq4", "github.com/tinylib/msgp"},
	"exchange":         {"golang.org/x/sys"},
	"metrics":          {"github.com/prometheus/client_golang", "github.com/prometheus/client_model"},
	"record":           {},
	"keys":             {},
	"tracing":          {"record", "google.golang.org/protobuf"},
	"systemd":          {"github.com/coreos/go-systemd/v22", "golang.org/x/sys"},
	"systemd/hosttest": {},
	"survey":           {},
	"setup":            {"systemd"},
	"doctor":           {"survey", "systemd"},
	"sim":              {},
	"bench":            {"policy", "workers", "sim"},
	"bench/chaos":      {"sim"},
	"bench/loadtools":  {"sim"},
	"bench/rivals":     {"sim"},
	"bench/table":      {"bench", "policy"},
	"enginetest":       {},
	"bench/overhead":   {"exchange", "health", "policy", "workers", "golang.org/x/term"},
}

func TestDependencyDirection(t *testing.T) {
	for _, p := range listPackages(t) {
		may, ok := allowed[p.name()]
		if !ok {
			t.Errorf("package %s is not on the map; add it to allowed and to ARCHITECTURE.md", p.name())
		}
		for _, imp := range p.thirdParty() {
			switch {
			case slices.Contains(may, "*"), inModule(imp, may):
			case inModule(imp, []string{logs}) && slices.Contains(silent, p.name()):
				t.Errorf("package %s logs; let it return what it has to say", p.name())
			case inModule(imp, free):
			default:
				t.Errorf("package %s must not import %s", p.name(), imp)
			}
		}
	}
}

// shared is what is used for one thing that two packages do: router and admin
// both serve HTTP, and route it by chi.
var shared = []string{"github.com/go-chi/chi", "golang.org/x/sys"}

// TestOneHome: what a third-party module is used for is done in one package.
// cmd builds the parts and may name the types of theirs that it passes on.
func TestOneHome(t *testing.T) {
	homes := map[string][]string{}
	for _, p := range listPackages(t) {
		for _, imp := range p.thirdParty() {
			ours := strings.HasPrefix(imp, module)
			if ours || inModule(imp, free) || inModule(imp, shared) || p.name() == "cmd/pdrouter" {
				continue
			}
			root := modulePath(imp)
			if !slices.Contains(homes[root], p.name()) {
				homes[root] = append(homes[root], p.name())
			}
		}
	}
	for root, names := range homes {
		if len(names) > 1 {
			t.Errorf("%s is imported by %v; give it one home", root, names)
		}
	}
}

// maxFileLines is the limit of style.md that no linter checks. How many files a
// package has is an aim of it only, which the test tells with -v.
const (
	maxFileLines   = 400
	aimedFileCount = 12
)

func TestFileSizes(t *testing.T) {
	for _, p := range listPackages(t) {
		if n := len(p.GoFiles); n > aimedFileCount {
			t.Logf("package %s has %d files, the aim is %d", p.name(), n, aimedFileCount)
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte("\n")); n > maxFileLines {
				t.Errorf("%s/%s has %d lines, want at most %d", p.name(), f, n, maxFileLines)
			}
		}
	}
}

// A goPackage is what go list says of a package.
type goPackage struct {
	Dir, ImportPath                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports                            []string
}

func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// thirdParty returns the imports of p that are not of the standard library,
// ours among them.
func (p goPackage) thirdParty() []string {
	return slices.DeleteFunc(slices.Clone(p.Imports), func(imp string) bool {
		first, _, _ := strings.Cut(imp, "/")
		return !strings.Contains(first, ".") && !strings.HasPrefix(imp, module)
	})
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

// inModule reports whether imp is in one of roots: a package of ours by its
// name, or a module whatever its major version.
func inModule(imp string, roots []string) bool {
	imp = strings.TrimPrefix(imp, module)
	return slices.ContainsFunc(roots, func(root string) bool {
		return imp == root || strings.Contains(root, ".") && strings.HasPrefix(imp, root+"/")
	})
}

// modulePath returns the repository of an import: its first three parts.
func modulePath(imp string) string {
	parts := strings.Split(imp, "/")
	return strings.Join(parts[:min(3, len(parts))], "/")
}
