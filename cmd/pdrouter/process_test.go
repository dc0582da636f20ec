package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pdrouter/sim"
)

// A process is pdrouter serve as a process of its own.
type process struct {
	*exec.Cmd
	base, metrics string // URLs
	exited        chan error

	mu    sync.Mutex
	lines []string // its log
}

// startServe runs pdrouter serve on free ports, and returns when it serves. It
// is killed if the test does not end it.
func startServe(t *testing.T, args ...string) *process {
	t.Helper()
	return serveOf(t, "pdrouter", args...) // this test binary
}

// serveOf is startServe for any binary of ours.
func serveOf(t *testing.T, binary string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	args = append([]string{"serve", "--host", "127.0.0.1", "--port", "0", "--prometheus-host", "127.0.0.1", "--prometheus-port", "0", "--admin-socket", "none", "--log-json"}, args...)
	p := &process{Cmd: exec.CommandContext(ctx, binary, args...), exited: make(chan error, 1)}
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else -race adds a second
	out, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	serving := make(chan [2]string, 1)
	go func() {
		p.readLog(out, serving)
		p.exited <- p.Wait()
	}()
	select {
	case at := <-serving:
		p.base, p.metrics = "http://"+at[0], "http://"+at[1]
	case err := <-p.exited:
		t.Fatalf("serve %q ended with %v\n%s", args, err, p.log())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the router:\n%s", p.log())
		}
	})
	return p
}

// readLog keeps the log, and tells where the process serves.
func (p *process) readLog(out io.Reader, serving chan<- [2]string) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
		var line struct{ Msg, Addr, Metrics string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			serving <- [2]string{line.Addr, line.Metrics}
		}
	}
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// terminate sends SIGTERM.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// wantExit waits for the end of the process, with status 0 and within limit
// from now.
func (p *process) wantExit(t *testing.T, limit time.Duration) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-p.exited:
		if err != nil {
			t.Errorf("the router ended with %v, want status 0", err)
		}
	case <-timer.C:
		t.Fatalf("the router has not ended %v later", limit)
	}
}

// workerFlags returns the flags for a prefill and a decode engine.
func workerFlags(prefill, decode *sim.Engine) []string {
	return []string{"--prefill", prefill.URL(), "--decode", decode.URL()}
}
