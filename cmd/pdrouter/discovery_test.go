package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"pdrouter/exchange"
	"pdrouter/metrics"
	"pdrouter/policy"
	"pdrouter/workers"
)

// A watched is a registry with one worker from flags, in step with a file.
type watched struct {
	*testing.T
	path     string
	registry *workers.Registry
	logs     *observer.ObservedLogs
}

const (
	twoWorkers   = "prefill:\n  - http://10.0.1.1:1 8998\ndecode:\n  - url: http://10.0.2.1:1\n    api-key: k\n"
	threeWorkers = twoWorkers + "  - http://10.0.2.2:1\n"
)

// watchFile keeps a registry in step with the file at path, which is there,
// until the test ends.
func watchFile(t *testing.T, path string, every time.Duration) *watched {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Workers.Specs = []workers.Spec{{Role: workers.Decode, URL: "http://10.0.2.9:1"}}
	cfg.Workers.DrainSettle = 0
	cfg.DiscoveryProvider, cfg.DiscoveryFile, cfg.DiscoveryInterval = fromFile, path, every
	registry, err := workers.NewRegistry(cfg.Workers, exchange.DefaultConfig(), policy.PrefixHash{}, func(workers.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	d := newDiscovery(cfg, registry, metrics.Discard(), zap.New(core))
	if err := d.read(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("watching ended with %v", err)
		}
		registry.Close()
	})
	return &watched{t, path, registry, logs}
}

// ids returns the workers, each as ID and URL, with the flag's one left out.
func (w *watched) ids() string {
	var out []string
	for _, s := range w.registry.Statuses() {
		if s.Worker.ID != "decode-0" {
			out = append(out, s.Worker.ID+" "+strings.TrimPrefix(s.Worker.URL, "http://"))
		}
	}
	return strings.Join(out, ", ")
}

// want waits until the file's workers are those.
func (w *watched) want(ids string) {
	w.Helper()
	for end := time.Now().Add(5 * time.Second); w.ids() != ids; {
		if time.Now().After(end) {
			w.Fatalf("workers = %s, want %s; logs %v", w.ids(), ids, w.logs.All())
		}
		tick(w.T)
	}
	if _, ok := w.registry.Get("decode-0"); !ok {
		w.Error("the worker from the flags is gone")
	}
}

// wantRefused waits for the n-th refusal, which says why, and checks that the
// workers are still those.
func (w *watched) wantRefused(n int, why, ids string) {
	w.Helper()
	refused := func() []observer.LoggedEntry {
		return w.logs.FilterMessage("discovery file refused, the workers stay as they were").All()
	}
	for end := time.Now().Add(5 * time.Second); len(refused()) < n; {
		if time.Now().After(end) {
			w.Fatalf("%d refusals, want %d", len(refused()), n)
		}
		tick(w.T)
	}
	if got, _ := refused()[n-1].ContextMap()["why"].(string); !strings.Contains(got, why) {
		w.Errorf("refused because %q, want %q", got, why)
	}
	if got := w.ids(); got != ids {
		w.Errorf("workers after the refusal = %s, want %s", got, ids)
	}
}

// tick lets others run for a while.
func tick(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(2 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

// put writes a file at once.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace puts a file in place of another, as one should.
func replace(t *testing.T, path, text string) {
	t.Helper()
	put(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

const (
	twoIDs   = "prefill-0 10.0.1.1:1, decode-1 10.0.2.1:1"
	threeIDs = twoIDs + ", decode-2 10.0.2.2:1"
)

func TestDiscoveryFollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.yaml")
	put(t, path, twoWorkers)
	w := watchFile(t, path, time.Hour)
	w.want(twoIDs)

	replace(t, path, threeWorkers)
	w.want(threeIDs)

	// The same file with another port for prefill: that worker is another one.
	replace(t, path, strings.Replace(threeWorkers, "8998", "8999", 1))
	w.want("decode-1 10.0.2.1:1, decode-2 10.0.2.2:1, prefill-1 10.0.1.1:1")

	// Written in place, in halves: the first has no list of decode workers.
	put(t, path, twoWorkers[:30])
	w.wantRefused(1, `workers.yaml: no list "decode"`, "decode-1 10.0.2.1:1, decode-2 10.0.2.2:1, prefill-1 10.0.1.1:1")
	put(t, path, twoWorkers)
	w.want("decode-1 10.0.2.1:1, prefill-2 10.0.1.1:1")

	// What somebody else has removed is added again when the file changes.
	if err := w.registry.Remove("prefill-2"); err != nil {
		t.Fatal(err)
	}
	replace(t, path, "# changed\n"+twoWorkers)
	w.want("decode-1 10.0.2.1:1, prefill-3 10.0.1.1:1")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.wantRefused(2, "no such file", "decode-1 10.0.2.1:1, prefill-3 10.0.1.1:1")
	replace(t, path, "prefill: []\ndecode: []\n")
	w.want("")
}

// TestDiscoveryFollowsAConfigMap: Kubernetes swaps the directory that the file
// is in, by renaming a symbolic link beside a link that stays.
func TestDiscoveryFollowsAConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name, "workers.yaml"), text)
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "workers.yaml")
	version("..1", twoWorkers)
	if err := os.Symlink("..data/workers.yaml", path); err != nil {
		t.Fatal(err)
	}
	w := watchFile(t, path, time.Hour)

	version("..2", threeWorkers)
	w.want(threeIDs)
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	version("..3", twoWorkers)
	w.want(twoIDs)
}

// TestDiscoveryFollowsALink swaps a link to a file in another directory, and
// then replaces the file there.
func TestDiscoveryFollowsALink(t *testing.T) {
	a, b, path := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "workers.yaml")
	put(t, a, twoWorkers)
	put(t, b, twoWorkers)
	for _, link := range []string{path, path + ".new"} {
		target := map[bool]string{true: a, false: b}[link == path]
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	w := watchFile(t, path, time.Hour)
	replace(t, a, threeWorkers)
	w.want(threeIDs)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	w.want(twoIDs)
	replace(t, b, threeWorkers)
	w.want(strings.Replace(threeIDs, "decode-2", "decode-3", 1))
}

// TestDiscoveryReadsWithoutBeingTold is about changes that no event tells of: a
// link to a link whose last directory nobody watches.
func TestDiscoveryReadsWithoutBeingTold(t *testing.T) {
	home, between := t.TempDir(), t.TempDir()
	put(t, filepath.Join(home, "two"), twoWorkers)
	put(t, filepath.Join(home, "three"), threeWorkers)
	link := filepath.Join(between, "link")
	if err := os.Symlink(filepath.Join(home, "two"), link); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "workers.yaml")
	if err := os.Symlink(link, path); err != nil {
		t.Fatal(err)
	}
	w := watchFile(t, path, 20*time.Millisecond)
	w.want(twoIDs)

	if err := os.Symlink(filepath.Join(home, "three"), link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}

	w.want(threeIDs)
}

func TestDiscoveryRefusesAWholeVersion(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"no YAML", "prefill: [", "workers.yaml:1:"},
		{"an empty file", "", `no list "prefill"; write prefill: [] if there are none`},
		{"one list only", "prefill:\n  - http://10.0.1.7:1\n", `no list "decode"`},
		{"a setting that is not of workers", threeWorkers + "port: 1\n", `workers.yaml:7:1: unknown key "port"`},
		{"a worker with a fault", threeWorkers + "  - ftp://10.0.2.3:1\n", `workers.yaml:7:5: decode "ftp://10.0.2.3:1": the scheme must be http, https or unix`},
		{"a worker with a fault in a map", threeWorkers + "  - url: http://10.0.2.3:1/v1\n", `workers.yaml:7:`},
		{"two workers with faults", "prefill:\n  - http://a 0\n  - ftp://b\ndecode: []\n", `workers.yaml:3:5: prefill "ftp://b": the scheme must be`},
		{"a worker twice", threeWorkers + "  - http://10.0.2.2:1\n", `workers.yaml:7:5: decode "http://10.0.2.2:1": said already in line 6`},
		{"a worker that the flags have", threeWorkers + "  - http://10.0.2.9:1\n", `workers.yaml: decode "http://10.0.2.9:1": the worker is there already`},
		{"a prefill worker that no decode worker reaches", "prefill: [http://127.0.0.1:1]\ndecode: []\n", "cannot reach its bootstrap host"},
		{"a key that check has printed", "prefill: []\ndecode:\n  - url: http://10.0.2.3:1\n    api-key: '***'\n", "workers.yaml:4:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "workers.yaml")
			put(t, path, twoWorkers)
			w := watchFile(t, path, time.Hour)

			replace(t, path, tt.yaml)

			w.wantRefused(1, tt.want, twoIDs)
		})
	}
}

// TestDiscoverySettings is about a daemon whose workers are all in the file.
func TestDiscoverySettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.yaml")
	put(t, path, threeWorkers)
	tests := []struct{ args, want string }{
		{"--discovery-provider file --discovery-file " + path, ""},
		{"--discovery-provider file", "needs --discovery-file"},
		{"--discovery-file " + path, "give --discovery-provider file too"},
		{"--discovery-provider file --discovery-file " + path + "x", "no such file"},
		{"--discovery-provider file --discovery-file " + path + " --decode http://10.0.2.2:1", "configured twice"},
		{"--discovery-provider file --discovery-file " + path + " --discovery-check-interval-secs 0", "must be above 0"},
		{"--discovery-provider kubernetes", "no workers"},
	}
	for _, tt := range tests {
		flags, in := serveFlags()
		args, err := normalise(flags, strings.Fields(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		cfg, err := in.load()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("load %s = %v, want %q", tt.args, err, tt.want)
		}
		if rows := cfg.workerRows(); tt.want == "" && len(rows) != 3 {
			t.Errorf("load %s shows %d workers, want 3", tt.args, len(rows))
		}
		if warned := len(in.warnings) > 0; warned != strings.Contains(tt.args, "kubernetes") {
			t.Errorf("load %s warns %v", tt.args, in.warnings)
		}
	}
}

// TestDiscoveryServes starts a daemon without workers, and lets them come.
func TestDiscoveryServes(t *testing.T) {
	prefill, decode := startEngine(t, "sglang", "prefill", nil), startEngine(t, "sglang", "decode", nil)
	path := filepath.Join(t.TempDir(), "workers.yaml")
	put(t, path, "prefill: []\ndecode: []\n")
	cfg := localConfig()
	cfg.DiscoveryProvider, cfg.DiscoveryFile = fromFile, path
	var f fleet
	f.start(t, cfg)

	replace(t, path, "prefill:\n  - "+prefill.URL()+"\ndecode:\n  - "+decode.URL()+"\n")

	for end := time.Now().Add(5 * time.Second); len(f.registry.Models()) == 0; tick(t) {
		if time.Now().After(end) {
			t.Fatalf("no worker is ready: %+v", f.logs.All())
		}
	}
}

// FuzzParseWorkers: whatever is in the file, it is taken or refused, and what is
// taken is sound.
func FuzzParseWorkers(f *testing.F) {
	for _, seed := range []string{
		threeWorkers, "prefill: []\ndecode: []\n", "prefill: [http://a, {url: http://b, bootstrap-port: none}]\ndecode: http://c\n",
		"prefill: [", "- a", "prefill: [[a]]\ndecode: {a: b}", "prefill: *a\ndecode: !!x y", "prefill: |\n  http://a\ndecode: ~\n", "? a\n: b", "---\n---\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := parseWorkers("f", []byte(text))
		if err != nil {
			return
		}
		seen := map[workers.Spec]bool{}
		for _, s := range specs {
			if err := s.Validate(); err != nil {
				t.Errorf("parseWorkers takes %+v: %v", s, err)
			}
			if place := (workers.Spec{Role: s.Role, URL: s.URL}); seen[place] {
				t.Errorf("parseWorkers takes %s %s twice", s.Role, s.URL)
			} else {
				seen[place] = true
			}
		}
	})
}
