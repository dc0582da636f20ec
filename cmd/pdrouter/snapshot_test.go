package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// runRouter runs a router in this process. What is returned stops it, as
// SIGTERM does, and waits for its end.
func runRouter(t *testing.T, cfg Config) (f *fleet, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	core, logs := observer.New(zapcore.DebugLevel)
	d, err := newDaemon(ctx, cfg, nil, zap.New(core))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	f = &fleet{daemon: d, logs: logs, base: "http://" + d.data.Addr().String()}
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the router ended with %v", err)
		}
	}
	t.Cleanup(stop)
	told := func() bool {
		return !slices.ContainsFunc(d.registry.Statuses(), func(s workers.Status) bool { return s.State != workers.Ready || s.Report.At.IsZero() })
	}
	if !eventually(told) {
		t.Fatal("the workers have not told what they are")
	}
	return f, stop
}

// snapshotConfig is that of a router before three prefill and two decode
// engines, which are processes.
func snapshotConfig(t *testing.T, dialect, file string) (Config, []*engineProcess) {
	t.Helper()
	cfg := localConfig()
	cfg.Policy, cfg.IndexSnapshot = "cache_aware", file
	cfg.Workers.LoadInterval = 100 * time.Millisecond
	var engines []*engineProcess
	for i, role := range []string{sim.Prefill, sim.Prefill, sim.Prefill, sim.Decode, sim.Decode} {
		e := startProcess(t, dialect, role, "--prefill-us-per-token", "40") // or else nothing would be gained by a cache
		engines = append(engines, e)
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: workers.Role(i / 3), URL: e.url})
	}
	return cfg, engines
}

// pairsOf sends each prompt, and returns the pairs that they went to.
func pairsOf(t *testing.T, f *fleet, prompts ...int) []string {
	t.Helper()
	client := newClient(t)
	var pairs []string
	for _, n := range prompts {
		before := f.linesOf("request")
		if a := sendStep(client, f.base, completion(t, 0, prompt(n, 10_000), 1)); a.status != 200 {
			t.Fatalf("prompt %d is answered %v", n, a.reply)
		}
		if !eventually(func() bool { return f.linesOf("request") > before }) {
			t.Fatalf("prompt %d is not logged", n)
		}
		line := f.logs.FilterMessage("request").All()[before].ContextMap()
		pairs = append(pairs, fmt.Sprint(n, " to ", line["prefill"], " ", line["decode"]))
	}
	slices.Sort(pairs)
	return pairs
}

// linesOf returns how many lines of the log have that message.
func (f *fleet) linesOf(message string) int { return f.logs.FilterMessage(message).Len() }

const (
	known   = "worker's cache is known from before the restart"
	unknown = "worker's cache is not what it was before the restart"
)

// TestSnapshotOutlivesTheRouter: a router that is restarted sends each prompt
// to the pair that has its blocks, and does not if the engines were restarted
// meanwhile.
func TestSnapshotOutlivesTheRouter(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "index")
			cfg, engines := snapshotConfig(t, dialect, file)
			prompts := []int{1, 2, 3, 4, 5}
			a, stop := runRouter(t, cfg)
			if a.linesOf("no index snapshot yet") != 1 {
				t.Error("it is not said that there is no snapshot yet")
			}
			want := pairsOf(t, a, prompts...)
			if again := pairsOf(t, a, prompts...); !slices.Equal(again, want) {
				t.Fatalf("the second time prompts go %q, the first time %q", again, want)
			}
			counted := func() bool {
				return !slices.ContainsFunc(a.registry.Statuses(), func(s workers.Status) bool { return s.Report.PromptTokens == 0 })
			}
			if !eventually(counted) {
				t.Error("the engines' totals do not move")
			}
			stop()
			if about, err := os.Stat(file); err != nil || about.Mode() != 0o600 {
				t.Fatalf("the file is %v, %v", about, err)
			}

			b, stop := runRouter(t, cfg)
			if !eventually(func() bool { return b.linesOf(known) == len(engines) }) {
				t.Errorf("of %d workers is known what was, want %d", b.linesOf(known), len(engines))
			}
			slices.Reverse(prompts)
			if got := pairsOf(t, b, prompts...); !slices.Equal(got, want) {
				t.Errorf("after a restart prompts go %q, before it %q", got, want)
			}
			stop()

			for _, e := range engines {
				e.kill()
				e.start()
			}
			c, stop := runRouter(t, cfg)
			if !eventually(func() bool { return c.linesOf(unknown) == len(engines) }) || c.linesOf(known) > 0 {
				t.Errorf("of %d restarted engines is believed what was, of %d not", c.linesOf(known), c.linesOf(unknown))
			}
			stop()
		})
	}
}

// TestSnapshotOfNonsense: whatever is in the file, the router starts and says
// so once, and replaces it.
func TestSnapshotOfNonsense(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	if err := os.WriteFile(file, []byte("what is this"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(cfg *Config) { cfg.Policy, cfg.IndexSnapshot = "cache_aware", file }})
	if !eventually(func() bool { return f.linesOf("index snapshot ignored, or part of it") == 1 }) {
		t.Error("nothing is said of a file that is no snapshot")
	}
	if a := sendStep(newClient(t), f.base, completion(t, 0, prompt(1, 5000), 1)); a.status != 200 {
		t.Errorf("answer = %v", a.reply)
	}
}

// TestSnapshotNeedsAMemory: with a policy that remembers nothing, no file is
// kept, and that is said.
func TestSnapshotNeedsAMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	p := startServe(t, append(workerFlags(startEngine(t, sim.SGLang, sim.Prefill, nil), startEngine(t, sim.SGLang, sim.Decode, nil)), "--policy", "random", "--index-snapshot", file)...)
	if !strings.Contains(p.log(), "it is for cache_aware only; in use: random") {
		t.Error("nothing is said of a snapshot that is not kept")
	}
	p.terminate(t)
	p.wantExit(t, 10*time.Second)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("there is a file: %v", err)
	}
}

func TestCheckSnapshot(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	write := func(name string, mode os.FileMode) {
		if err := os.WriteFile(at(name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("there", 0o600)
	write("secret", 0)
	for name, mode := range map[string]os.FileMode{"sub": 0o700, "locked": 0o500} {
		if err := os.Mkdir(at(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, path, fault string
		needsUser         bool // root may do everything
	}{
		{"none", "", "", false},
		{"one that is not there yet", at("new"), "", false},
		{"one that is there", at("there"), "", false},
		{"a directory that is not there", at("no", "index"), "its directory: stat " + at("no") + ": no such file or directory", false},
		{"a file as its directory", at("there", "index"), at("there") + " is no directory", false},
		{"a directory", at("sub"), "it is no regular file", false},
		{"a device", "/dev/null", "it is no regular file", false},
		{"a directory that may not be written", at("locked", "index"), "no file may be made in " + at("locked") + ": permission denied", true},
		{"a file that may not be read", at("secret"), "it may not be read: permission denied", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.needsUser && os.Getuid() == 0 {
				t.Skip("root may do everything")
			}
			err := Config{IndexSnapshot: tt.path}.checkSnapshot()
			want := fmt.Sprintf("index-snapshot: %q: %s", tt.path, tt.fault)
			if got := fmt.Sprint(err); tt.fault == "" && err != nil || tt.fault != "" && got != want {
				t.Errorf("fault = %v, want %s", err, want)
			}
		})
	}
}
