package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pdrouter/sim"
)

// TestRestartAtTheSocket: the manager holds the socket, so that whoever comes
// while there is no process waits, and nobody is refused. Told to stop, or killed
// when nothing runs, the service is back within two seconds, and knows the index.
func TestRestartAtTheSocket(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
	}{{"restart", syscall.SIGTERM}, {"kill -9", syscall.SIGKILL}} {
		t.Run(tt.name, func(t *testing.T) {
			args := append(workerFlags(startEngine(t, sim.SGLang, sim.Prefill, nil), startEngine(t, sim.SGLang, sim.Decode, nil)),
				"--index-snapshot", filepath.Join(t.TempDir(), "index"))
			s := startService(t, args...)
			s.ready()
			client := newClient(t)
			for i := range 4 {
				complete(t, client, s.base, prompt(i, 4096), 2)
			}
			if tt.signal == syscall.SIGKILL { // so that there is a file that is older
				_ = syscall.Kill(s.last(), syscall.SIGTERM)
				s.wantEnd(s.last(), 10*time.Second)
				s.start(args...)
				complete(t, newClient(t), s.base, prompt(9, 4096), 2)
			}
			var crowds []*crowd
			if tt.signal == syscall.SIGTERM {
				crowds = s.crowds(4, func(i int) step { return completion(t, i, prompt(i%4, 900), 5) })
				flow(t, crowds, 8)
			}
			before := s.last()
			_ = syscall.Kill(before, tt.signal)
			<-s.endOf(before)
			if tt.signal == syscall.SIGKILL {
				crowds = s.crowds(4, func(i int) step { return completion(t, i, prompt(i%4, 900), 5) })
			}
			began := time.Now()
			s.start(args...)
			flow(t, crowds, 8)
			t.Logf("the first answers came %v after it was started", time.Since(began).Round(time.Millisecond))
			wantAllWhole(t, crowds, 2*time.Second)
			if n := strings.Count(s.log(), "worker's cache is known from before the restart"); n < 1 {
				t.Errorf("of %d workers is known what they held", n)
			}
			client.CloseIdleConnections()
			s.stop()
		})
	}
}

// openStream returns a stream of a service whose first token has come.
func (s *service) openStream(tokens int) io.ReadCloser {
	s.t.Helper()
	resp, err := newClient(s.t).Post(s.base+"/v1/completions", "application/json", strings.NewReader(completion(s.t, 1, "A long story", tokens).body))
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("no stream: %v %v", resp, err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

// slowService is a service whose answers take 20 ms for each token.
func slowService(t *testing.T, args ...string) *service {
	t.Helper()
	slow := func(c *sim.Config) { c.DecodePerToken = 20 * time.Millisecond }
	s := startService(t, append(workerFlags(startEngine(t, sim.VLLMNixl, sim.Prefill, slow), startEngine(t, sim.VLLMNixl, sim.Decode, slow)), args...)...)
	s.ready()
	return s
}

// TestSecondSIGTERM ends the process at once, streams and all, by that signal: what
// SuccessExitStatus=SIGTERM calls a success.
func TestSecondSIGTERM(t *testing.T) {
	s := slowService(t)
	stream := s.openStream(5000)
	_ = syscall.Kill(s.last(), syscall.SIGTERM)
	s.m.heard(t, "STOPPING=1\nSTATUS=draining: 1 requests")
	s.m.heard(t, "EXTEND_TIMEOUT_USEC=10000000")
	again := time.Now()
	_ = syscall.Kill(s.last(), syscall.SIGTERM)
	if code := <-s.endOf(s.last()); code != -int(syscall.SIGTERM) {
		t.Errorf("it ended with %d, want to be ended by SIGTERM", code)
	}
	if took := time.Since(again); took > time.Second {
		t.Errorf("it took %v to end", took)
	}
	if text, err := io.ReadAll(stream); err == nil {
		t.Errorf("the stream has come to an end: %q", text)
	}
}

// TestStopAfterUpgrade: a service that is told to stop while streams of the process
// before run ends when those have, and not before; nothing else of that one is
// waited for. A second SIGTERM is not waited for at all.
func TestStopAfterUpgrade(t *testing.T) {
	s := slowService(t)
	idle, _ := keptAlive(t, s.base) // to the first process, which it does not hold up
	defer idle.Close()
	stream := s.openStream(100)
	first := s.last()
	s.upgrade()
	_ = syscall.Kill(s.last(), syscall.SIGTERM)
	s.m.heard(t, "STOPPING=1")
	text, err := io.ReadAll(stream)
	if h, parsed := parseStream("/v1/completions", string(text)); err != nil || parsed != nil || !h.done {
		t.Errorf("a stream of the first process was cut: %v, %v", err, parsed)
	}
	s.wantEnd(first, 2*time.Second)
	s.wantEnd(s.last(), 2*time.Second)
	if s.m.count("EXTEND_TIMEOUT_USEC") == 0 {
		t.Error("no time was asked for")
	}
}
