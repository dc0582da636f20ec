package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A fleet is a router and its engines, each a process.
type fleet struct {
	engines []*engine
	router  *process
	base    string // URL of the router for clients
	metrics string // and for Prometheus
	file    string // of discovery
	client  *http.Client

	mu    sync.Mutex
	taken [2 * perRole]bool // out of the discovery file
}

// newFleet starts all processes. What it returns beside an error is to be
// closed too.
func newFleet(ctx context.Context, dialect, simExe, routerExe, dir string) (*fleet, error) {
	f := &fleet{file: filepath.Join(dir, dialect+"-workers.yaml"), client: newControlClient()}
	for i := range 2 * perRole {
		e, err := newEngine(i, dialect, simExe, dir)
		if err != nil {
			return f, err
		}
		f.engines = append(f.engines, e)
		if err := e.up(ctx); err != nil {
			return f, err
		}
	}
	if err := f.writeFile(); err != nil {
		return f, err
	}
	return f, f.startRouter(ctx, routerExe, filepath.Join(dir, dialect+"-router.log"))
}

// startRouter starts the router, and returns when all engines are ready.
func (f *fleet) startRouter(ctx context.Context, exe, log string) error {
	_ = os.Remove(log) // of a run before, if there was one
	var err error
	if f.router, err = start(log, exe, f.routerArgs()...); err != nil {
		return err
	}
	err = eventually(ctx, 10*time.Second, func() error {
		if !f.router.running() {
			return f.router.err
		}
		return f.readAddresses()
	})
	if err != nil {
		return fmt.Errorf("start the router: %w\n%s", err, endOf(log))
	}
	if err := eventually(ctx, 10*time.Second, func() error { return f.allReady(ctx) }); err != nil {
		return fmt.Errorf("%w\n%s", err, endOf(log))
	}
	return nil
}

// routerArgs are short times, so that what an operator sees within minutes is
// seen within seconds. Those which this release takes without acting on them
// are given as well: they count when it does.
func (f *fleet) routerArgs() []string {
	args := []string{
		"serve", "--host", "127.0.0.1", "--port", "0", "--prometheus-host", "127.0.0.1", "--prometheus-port", "0", "--log-json",
		"--discovery-provider", "file", "--discovery-file", f.file, "--discovery-check-interval-secs", "1",
		"--worker-startup-check-interval", "0.2", "--load-monitor-interval", "0.5", "--drain-settle-secs", "1", "--worker-warmup-secs", "1",
		"--connect-timeout-secs", "1", "--first-byte-timeout-secs", "2", "--stream-idle-timeout-secs", "2", "--request-timeout-secs", "4",
		"--shutdown-grace-period-secs", "5",
		"--cb-failure-threshold", "4", "--cb-timeout-duration-secs", "1", "--cb-window-duration-secs", "10",
		"--retry-initial-backoff-ms", "20", "--retry-max-backoff-ms", "500",
		"--health-check-interval-secs", "1", "--health-check-timeout-secs", "1",
	}
	for _, e := range f.engines {
		if fromFlag(e.number) {
			args = append(args, "--"+e.role, e.url)
		}
	}
	return args
}

// readAddresses finds where the router serves in its log.
func (f *fleet) readAddresses() error {
	text, err := os.ReadFile(f.router.log)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var entry struct{ Msg, Addr, Metrics string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "serving" {
			f.base, f.metrics = "http://"+entry.Addr, "http://"+entry.Metrics
			return nil
		}
	}
	return errors.New("it does not say where it serves")
}

// allReady wants that the router knows all engines and takes all for well.
func (f *fleet) allReady(ctx context.Context) error {
	p, err := scrape(ctx, f.client, f.metrics)
	if err != nil {
		return err
	}
	if n := p.sum("smg_worker_health"); n != float64(len(f.engines)) {
		return fmt.Errorf("the router takes %v engines for well, want %d", n, len(f.engines))
	}
	return nil
}

// setTaken takes an engine out of the discovery file, or puts it back.
func (f *fleet) setTaken(number int, taken bool) error {
	f.mu.Lock()
	f.taken[number] = taken
	f.mu.Unlock()
	return f.writeFile()
}

// writeFile replaces the discovery file, as an operator should: by a rename.
func (f *fleet) writeFile() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lists := map[string]string{"prefill": "", "decode": ""}
	for _, e := range f.engines {
		if !fromFlag(e.number) && !f.taken[e.number] {
			lists[e.role] += "\n  - " + e.url
		}
	}
	var b strings.Builder
	for _, role := range []string{"prefill", "decode"} {
		if lists[role] == "" {
			lists[role] = " []"
		}
		fmt.Fprintf(&b, "%s:%s\n", role, lists[role])
	}
	return replaceFile(f.file, b.String())
}

// garble replaces the discovery file by one that must be refused.
func (f *fleet) garble(n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad := []string{"", "prefill: []\n", "prefill: [\n", "prefill: []\ndecode:\n  - ftp://nobody\n", "prefill: []\ndecode: []\nmore: 1\n"}
	return replaceFile(f.file, bad[n%len(bad)])
}

func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// close ends all processes that still run.
func (f *fleet) close() {
	for _, e := range f.engines {
		if e.process != nil && e.running() {
			_ = e.end(syscall.SIGKILL, 5*time.Second) // it says that it was killed
		}
	}
	if f.router != nil && f.router.running() {
		_ = f.router.end(syscall.SIGKILL, 5*time.Second) // likewise
	}
}

// endOf returns the end of a log.
func endOf(log string) string {
	text, _ := os.ReadFile(log) // without it there is less to say
	return string(text[max(0, len(text)-2000):])
}
