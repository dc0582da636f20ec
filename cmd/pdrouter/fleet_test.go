package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"pdrouter/sim"
	"pdrouter/workers"
)

// A fleet is a daemon in this process with simulated engines behind it.
type fleet struct {
	*daemon
	base            string // URL of the data listener
	stop            func() // does what SIGTERM does
	prefill, decode []*sim.Engine
	logs            *observer.ObservedLogs
}

// A fleetPlan says how a fleet differs from two engines of either role and a
// router with its defaults.
type fleetPlan struct {
	dialect string
	engine  func(*sim.Config)
	config  func(*Config)

	// via returns the URL by which the router reaches an engine. Default: its own.
	via func(*sim.Engine) string
}

// startFleet runs two simulated engines of either role and a router in front
// of them until the test ends, and returns the router's URL.
func startFleet(t *testing.T, dialect string) (base string) {
	t.Helper()
	return newFleet(t, fleetPlan{dialect: dialect}).base
}

// newFleet runs a fleet until the test ends. Then no engine may have counted a
// violation.
func newFleet(t testing.TB, plan fleetPlan) *fleet {
	t.Helper()
	cfg := localConfig()
	f := &fleet{}
	for i := range 4 {
		role := [...]string{sim.Prefill, sim.Decode}[i/2]
		e := startEngine(t, plan.dialect, role, plan.engine)
		if i/2 == 0 {
			f.prefill = append(f.prefill, e)
		} else {
			f.decode = append(f.decode, e)
		}
		url := e.URL()
		if plan.via != nil {
			url = plan.via(e)
		}
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: workers.Role(i / 2), URL: url})
	}
	if plan.config != nil {
		plan.config(&cfg)
	}
	f.start(t, cfg)
	return f
}

// localConfig returns the configuration of a daemon on free ports of loopback.
func localConfig() Config {
	cfg := DefaultConfig()
	cfg.Host, cfg.Port, cfg.MetricsHost, cfg.MetricsPort = "127.0.0.1", 0, "127.0.0.1", 0
	cfg.AdminSocket = noSocket
	return cfg
}

// start runs a daemon until the test ends, after one look at its workers.
func (f *fleet) start(t testing.TB, cfg Config) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	core, logs := observer.New(zapcore.InfoLevel)
	d, err := newDaemon(ctx, cfg, nil, zap.New(core))
	if err != nil {
		stop()
		t.Fatal(err)
	}
	f.daemon, f.logs = d, logs
	f.base = "http://" + d.data.Addr().String()
	if cfg.TLSCert != "" {
		f.base = "https://" + d.data.Addr().String()
	}
	f.stop = stop
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	d.registry.Look(ctx)
}

// startEngine runs a simulated engine until the test ends.
func startEngine(t testing.TB, dialect, role string, change func(*sim.Config)) *sim.Engine {
	t.Helper()
	cfg := sim.DefaultConfig()
	cfg.Dialect, cfg.Role = dialect, role
	cfg.Addr, cfg.BootstrapAddr = "127.0.0.1:0", "127.0.0.1:0"
	if change != nil {
		change(&cfg)
	}
	e, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s %s ended with %v", role, e.URL(), err)
		}
		if v := e.Violations(); len(v) > 0 {
			t.Errorf("%s %s counted violations: %q", role, e.URL(), v)
		}
	})
	return e
}

// engines returns all engines, those of prefill first.
func (f *fleet) engines() []*sim.Engine {
	return append(append([]*sim.Engine(nil), f.prefill...), f.decode...)
}

// newClient returns a client whose connections end with the test.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// eventually waits until so is true, for at most ten seconds, and reports
// whether it came to be.
func eventually(so func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !so(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// expect returns the text that a simulated engine answers a request with.
func expect(t *testing.T, path string, body map[string]any) string {
	t.Helper()
	return expectAll(t, path, jsonOf(t, body))[0]
}

// expectAll returns the texts that a simulated engine answers a body with, one
// for each prompt.
func expectAll(t *testing.T, path, body string) []string {
	t.Helper()
	texts, err := sim.Expect(path, []byte(body))
	if err != nil {
		t.Fatalf("what %s %s is answered with: %v", path, body, err)
	}
	return texts
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// prompt returns words of that many bytes, which are others for each n from the
// beginning on.
func prompt(n, size int) string {
	return strings.Repeat(sim.Text(string(rune('A'+n%26))+strings.Repeat("x", n/26), 40)+" ", size/200+1)[:size]
}

// missing skips a test whose needs are not there; in CI that is a failure.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}
