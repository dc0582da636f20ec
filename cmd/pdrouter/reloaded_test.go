package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"pdrouter/admin"
	"pdrouter/sim"
)

// A reloadedFleet is one whose daemon has a file of settings that a test writes anew.
type reloadedFleet struct {
	*fleet
	t      *testing.T
	path   string
	socket string
	lines  map[string]string // of the file, by setting
}

// newReloadedFleet starts two engines of either role and a daemon with a file,
// and with args on its command line.
func newReloadedFleet(t *testing.T, dialect string, args ...string) *reloadedFleet {
	t.Helper()
	f := newFiledFleet(t, dialect)
	f.begin(args...)
	return f
}

// newFiledFleet is newReloadedFleet without the daemon.
func newFiledFleet(t *testing.T, dialect string) *reloadedFleet {
	t.Helper()
	dir := t.TempDir()
	f := &reloadedFleet{fleet: &fleet{}, t: t, path: filepath.Join(dir, "pdrouter.yaml"), socket: filepath.Join(dir, "a.sock")}
	for i := range 4 {
		role := [...]string{sim.Prefill, sim.Decode}[i/2]
		e := startEngine(t, dialect, role, func(c *sim.Config) { c.DecodePerToken = 2 * time.Millisecond })
		if i/2 == 0 {
			f.prefill = append(f.prefill, e)
		} else {
			f.decode = append(f.decode, e)
		}
	}
	f.lines = map[string]string{
		"host": "127.0.0.1", "port": "0", "prometheus-host": "127.0.0.1", "prometheus-port": "0", "admin-socket": f.socket,
		"drain-settle-secs": "0", "worker-warmup-secs": "0",
	}
	f.workers(f.prefill, f.decode)
	return f
}

// begin starts the daemon as serve does.
func (f *reloadedFleet) begin(args ...string) {
	f.t.Helper()
	in := newIntake()
	in.file = f.path
	for i := 0; i < len(args); i += 2 {
		_ = (&bound{in.setting(args[i]), in}).Set(args[i+1])
	}
	cfg, err := in.load()
	if err != nil {
		f.t.Fatal(err)
	}
	level := zap.NewAtomicLevelAt(levelOf(cfg.LogLevel))
	core, logs := observer.New(level)
	ctx, stop := context.WithCancel(context.Background())
	d, err := newDaemon(ctx, cfg, nil, zap.New(core))
	if err != nil {
		stop()
		f.t.Fatal(err)
	}
	d.reload.from, d.reload.level = in, level
	f.daemon, f.logs, f.stop = d, logs, stop
	scheme := "http://"
	if cfg.TLSCert != "" {
		scheme = "https://"
	}
	f.base = scheme + d.data.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	f.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.t.Errorf("the daemon ended with %v", err)
		}
	})
	d.registry.Look(ctx)
}

// workers has the file name these.
func (f *reloadedFleet) workers(prefill, decode []*sim.Engine) {
	f.t.Helper()
	urls := func(all []*sim.Engine) string {
		var out []string
		for _, e := range all {
			out = append(out, e.URL())
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	f.set("prefill", urls(prefill), "decode", urls(decode))
}

// set writes the file with other values, name by name. An empty one is left out.
func (f *reloadedFleet) set(pairs ...string) {
	f.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		f.lines[pairs[i]] = pairs[i+1]
	}
	var text strings.Builder
	for name, value := range f.lines {
		if value != "" {
			fmt.Fprintf(&text, "%s: %s\n", name, value)
		}
	}
	put(f.t, f.path, text.String())
}

// reload sets, and wants that it is taken.
func (f *reloadedFleet) reload(pairs ...string) admin.Reload {
	f.t.Helper()
	f.set(pairs...)
	done, err := f.Reload()
	if err != nil {
		f.t.Fatalf("reload with %q: %v", pairs, err)
	}
	return done
}

// wantStatus wants that a completion is answered so.
func (f *reloadedFleet) wantStatus(client *http.Client, what string, want int, key string) {
	f.t.Helper()
	body := jsonOf(f.t, map[string]any{"model": "sim-model", "prompt": "Hello", "max_tokens": 2})
	req, err := http.NewRequest(http.MethodPost, f.base+"/v1/completions", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is kept
	if resp.StatusCode != want {
		f.t.Errorf("%s: status %d, want %d", what, resp.StatusCode, want)
	}
}
