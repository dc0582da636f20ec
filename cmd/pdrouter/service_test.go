package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"
)

// A fakeManager is what a service manager is to its services: a socket at which
// it is told how they are, and sockets that it opens for them.
type fakeManager struct {
	path string

	mu   sync.Mutex
	told []string
}

func newFakeManager(t *testing.T) *fakeManager {
	t.Helper()
	m := &fakeManager{path: filepath.Join(t.TempDir(), "notify")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.told = append(m.told, string(buf[:n]))
			m.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		reading.Wait()
	})
	return m
}

// heard returns the first thing from the given one on that it was told with that
// text in it.
func (m *fakeManager) heard(t *testing.T, text string) string {
	t.Helper()
	found := ""
	if !eventually(func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, told := range m.told {
			if strings.Contains(told, text) {
				found = told
				return true
			}
		}
		return false
	}) {
		m.mu.Lock()
		defer m.mu.Unlock()
		t.Fatalf("was not told %q, but %q", text, m.told)
	}
	return found
}

func (m *fakeManager) count(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, told := range m.told {
		if strings.Contains(told, text) {
			n++
		}
	}
	return n
}

// start runs pdrouter as its service, with these sockets, of those names.
func (m *fakeManager) start(t *testing.T, names string, listeners []*net.TCPListener, args ...string) *process {
	t.Helper()
	p := &process{exited: make(chan error, 1)}
	p.Cmd = exec.CommandContext(t.Context(), "sh", append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", "pdrouter", "serve", "--admin-socket", "none", "--log-json"}, args...)...)
	for _, ln := range listeners {
		file, err := ln.File()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		p.ExtraFiles = append(p.ExtraFiles, file)
	}
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "NOTIFY_SOCKET="+m.path, "WATCHDOG_USEC=600000",
		"LISTEN_FDS="+string(rune('0'+len(listeners))), "LISTEN_FDNAMES="+names)
	out, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.readLog(out, make(chan [2]string, 1))
		p.exited <- p.Wait()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the router:\n%s", p.log())
		}
	})
	return p
}

// TestServiceManagerIsTold what systemd wants to know, and the sockets that it
// opened are served, whatever their order.
func TestServiceManagerIsTold(t *testing.T) {
	m := newFakeManager(t)
	prefill, decode := startEngine(t, sim.VLLMNixl, sim.Prefill, nil), startEngine(t, sim.VLLMNixl, sim.Decode, nil)
	var ports []*net.TCPListener
	for range 3 {
		ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		ports = append(ports, ln)
	}
	p := m.start(t, "metrics:strange:data", ports, append(workerFlags(prefill, decode), "--api-key", "secret", "--shutdown-grace-period-secs", "20")...)
	if got, want := m.heard(t, "READY=1"), "READY=1\nSTATUS=ready 1/1 prefill, 1/1 decode, KV "; !strings.HasPrefix(got, want) {
		if !strings.HasPrefix(got, "READY=1\nSTATUS=ready 1/1 prefill, 1/1 decode, 0 running") { // no report yet
			t.Errorf("told %q, want %q and so on", got, want)
		}
	}
	m.heard(t, "STATUS=ready 1/1 prefill, 1/1 decode, KV 0 %, 0 running")

	base := "http://" + ports[2].Addr().String()
	if status, _, err := request(t, http.MethodGet, base+"/readiness", "", ""); err != nil || status != http.StatusOK {
		t.Errorf("GET /readiness at the socket called data: %d, %v", status, err)
	}
	if page := scrape(t, ports[0].Addr().String()); page.series("smg_worker_health") != 2 {
		t.Error("no metrics at the socket called metrics")
	}
	if !strings.Contains(p.log(), "strange") {
		t.Error("the log does not say that a socket is of no use")
	}
	if !eventually(func() bool { return m.count("WATCHDOG=1") >= 3 }) {
		t.Errorf("%d signs of life, though keys are asked for", m.count("WATCHDOG=1"))
	}
	if status, _, _ := request(t, http.MethodGet, base+"/v1/nothing", "", ""); status == http.StatusNoContent {
		t.Error("anybody is taken for the watchdog")
	}
	p.terminate(t)
	m.heard(t, "STOPPING=1\nSTATUS=draining")
	m.heard(t, "EXTEND_TIMEOUT_USEC=10000000")
	p.wantExit(t, 10*time.Second)
}

// TestUnixSockets: clients and Prometheus may come by unix sockets, and so may
// the router to its engines.
func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return "unix:" + filepath.Join(dir, name) }
	f := newFleet(t, fleetPlan{dialect: sim.VLLMNixl, config: func(c *Config) { c.Host, c.MetricsHost = at("api"), at("metrics") }})
	by := func(name string) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, name))
		}}}
	}
	body := jsonOf(t, map[string]any{"model": "sim-model", "prompt": "By a socket", "max_tokens": 5})
	status, answer := post(t, by("api"), "http://localhost/v1/completions", body)
	if texts, err := parseAnswer("/v1/completions", answer); status != http.StatusOK || err != nil || texts[0] != expectAll(t, "/v1/completions", body)[0] {
		t.Errorf("answer = %d %s", status, answer)
	}
	resp, err := by("metrics").Get("http://localhost/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /metrics: %d", resp.StatusCode)
	}
	if info, err := os.Stat(filepath.Join(dir, "api")); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket is %v, %v; want it for its owner and group", info, err)
	}
	if err := f.watchdog.ask(t.Context(), f.watchdog.client(f.data, false), 5*time.Second); err != nil {
		t.Errorf("no sign of life: %v", err)
	}
}

// TestWatchdogFails when no lease can be had any more, and not when the engines
// are gone.
func TestWatchdogFails(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.VLLMNixl})
	for _, s := range f.registry.Statuses() {
		f.registry.Bar(s.Worker, workers.Breaking, time.Now().Add(time.Hour), "gone")
	}
	if err := f.watchdog.ask(t.Context(), f.watchdog.client(f.data, false), 5*time.Second); err != nil {
		t.Errorf("no sign of life, though only the engines are gone: %v", err)
	}

	let := make(chan struct{})
	wedged := newWatchdog(func() { <-let })
	srv := httptest.NewServer(wedged.guard(http.NotFoundHandler()))
	defer srv.Close()
	defer close(let)
	if err := wedged.ask(t.Context(), wedged.client(srv.Listener, false), 100*time.Millisecond); err == nil {
		t.Error("a sign of life, though no lease can be had")
	}
}
