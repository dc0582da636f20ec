package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pdrouter/sim"
)

// TestServiceIsReloaded as systemd does it, by SIGHUP and by ExecReload=, with a
// file that is well and one that is not: each time the manager is told RELOADING
// with the time, then READY.
func TestServiceIsReloaded(t *testing.T) {
	m := newFakeManager(t)
	prefill, decode := startEngine(t, sim.VLLMNixl, sim.Prefill, nil), startEngine(t, sim.VLLMNixl, sim.Decode, nil)
	data, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "pdrouter.yaml"), filepath.Join(dir, "a.sock")
	put(t, file, "log-level: info\n")
	p := m.start(t, "data", []*net.TCPListener{data}, append(workerFlags(prefill, decode),
		"--config", file, "--admin-socket", socket, "--prometheus-host", "127.0.0.1", "--prometheus-port", "0")...)
	m.heard(t, "READY=1")
	base := "http://" + data.Addr().String()
	wantAnswer := func(want int) {
		t.Helper()
		status, _ := post(t, newClient(t), base+"/v1/completions", jsonOf(t, map[string]any{"model": "sim-model", "prompt": "Hi", "max_tokens": 1}))
		if status != want {
			t.Errorf("answer = %d, want %d", status, want)
		}
	}
	wantAnswer(http.StatusOK)
	reloaded := func(n int) {
		t.Helper()
		if !eventually(func() bool { return m.count("READY=1") == n+1 && m.count("RELOADING=1\nMONOTONIC_USEC=") == n }) {
			t.Fatalf("told RELOADING %d times and READY %d times, want %d and %d", m.count("RELOADING=1"), m.count("READY=1"), n, n+1)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		last := ""
		for _, told := range m.told {
			if strings.HasPrefix(told, "RELOADING=1") || strings.HasPrefix(told, "READY=1") {
				if last == told[:5] {
					t.Errorf("told %q twice", told)
				}
				last = told[:5]
			}
		}
	}

	put(t, file, "api-key: [secret]\n")
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	reloaded(1)
	wantAnswer(http.StatusUnauthorized)

	put(t, file, "queue-size: 5\n")
	out, err := runProcess("reload", "--admin-socket", socket)
	if err != nil || !strings.Contains(out, "queue-size: 1024 -> 5") {
		t.Errorf("reload says %q, %v", out, err)
	}
	reloaded(2)
	wantAnswer(http.StatusOK)

	put(t, file, "queue-size: five\nbogus: 1\n")
	out, err = runProcess("reload", "--admin-socket", socket)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Count(out, "\n") != 2 {
		t.Errorf("reload of an invalid file says %q, %v; want two lines, and status 1", out, err)
	}
	reloaded(3)
	m.heard(t, "not reloaded at ")
	wantAnswer(http.StatusOK)
	p.terminate(t)
	p.wantExit(t, 10*time.Second)
	if _, err := runProcess("reload", "--admin-socket", socket); err == nil {
		t.Error("reload of a daemon that is gone succeeds")
	}
}

// runProcess runs pdrouter, and returns all that it says.
func runProcess(args ...string) (out string, err error) {
	cmd := exec.Command("pdrouter", args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	text, err := cmd.CombinedOutput()
	return string(text), err
}
