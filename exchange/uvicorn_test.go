package exchange

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// uvicornKeepAlive is what the engine under test is told; engines keep 5 s.
const uvicornKeepAlive = time.Second

// python returns the interpreter of the project's virtual environment, which
// `make check` creates, or skips the test.
func python(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../.venv/bin/python")
	if err == nil {
		err = exec.CommandContext(t.Context(), path, "-c", "import uvicorn").Run()
	}
	if err == nil {
		return path
	}
	const missing = "no Python with uvicorn at .venv/bin/python in the repository's root (`make check` makes it)"
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %v", missing, err)
	}
	t.Skipf("%s: %v", missing, err)
	return ""
}

// uvicorn starts a real uvicorn, on TCP or on a unix socket, and returns its URL.
func uvicorn(t *testing.T, socket string) string {
	t.Helper()
	args := []string{
		"-m", "uvicorn", "uvicorn_app:app", "--app-dir", "testdata", "--no-access-log",
		"--timeout-keep-alive", fmt.Sprint(uvicornKeepAlive.Seconds()),
	}
	if socket != "" {
		args = append(args, "--uds", socket)
	} else {
		args = append(args, "--host", "127.0.0.1", "--port", "0")
	}
	cmd := exec.CommandContext(t.Context(), python(t), args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(stderr)
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-drained
		_ = cmd.Wait()
	})
	defer func() {
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, stderr)
		}()
	}()
	for said.Scan() {
		_, rest, ok := strings.Cut(said.Text(), "Uvicorn running on ")
		if ok && socket != "" {
			return "unix:" + socket
		}
		if ok {
			return strings.Fields(rest)[0]
		}
	}
	t.Fatalf("uvicorn ended before it served: %v", said.Err())
	return ""
}

func TestUvicorn(t *testing.T) {
	t.Run("over TCP", func(t *testing.T) { testUvicorn(t, uvicorn(t, "")) })
	t.Run("over a unix socket", func(t *testing.T) {
		testUvicorn(t, uvicorn(t, filepath.Join(t.TempDir(), "engine.sock")))
	})
}

func testUvicorn(t *testing.T, url string) {
	events := ""
	for i := range 20 {
		events += fmt.Sprintf("data: %d\n\n", i)
	}
	tests := []struct {
		path   string
		size   int
		status int
		body   string
		err    string
		kept   bool
		either bool // kept or not, as it happens
	}{
		{path: "/plain", status: 200, body: "got 0", kept: true},
		{path: "/plain", size: 1 << 10, status: 200, body: "got 1024", kept: true},
		{path: "/plain", size: 8 << 20, status: 200, body: "got 8388608", kept: true},
		{path: "/stream", size: 1 << 10, status: 200, body: events + "data: [DONE]\n\n", kept: true},
		{path: "/closing", size: 1 << 10, status: 200, body: "bye"},
		// uvicorn answers and then reads on, while we close if it is not quick.
		{path: "/early", size: large, status: 413, body: "too large", either: true},
		{path: "/early_close", size: large, status: 413, body: "too large"},
		{path: "/dies", size: 1 << 10, status: 200, body: "data: 0\n\n", err: "unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s with %d bytes", test.path, test.size), func(t *testing.T) {
			p := dialled(t, url)
			a, err := p.Do(t.Context(), &Request{Path: test.path, Body: [][]byte{pattern(test.size)}, FirstByte: patience})
			if err != nil {
				t.Fatal(err)
			}
			body, err := readAll(a)
			if a.Status != test.status || body != test.body {
				t.Errorf("answer = %d %q, want %d %q", a.Status, body, test.status, test.body)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("body ends with %v, want %q", err, test.err)
			}
			a.Close()
			want := Stats{}
			if test.kept {
				want = Stats{Open: 1, Idle: 1}
			}
			if !test.either {
				wantStats(t, p, want)
			}
			if got := exchanged(t, p, &Request{Path: "/plain", Body: [][]byte{[]byte("hello")}, FirstByte: patience}); got != "got 5" {
				t.Errorf("the next answer = %q", got)
			}
		})
	}
}

// TestUvicornKeepAlive sends again at about the moment when uvicorn closes for
// idleness, and well before and after it. Our own idle bound is out of the way.
// A request may find its connection closing, but only as Stale.
func TestUvicornKeepAlive(t *testing.T) {
	url := uvicorn(t, "")
	const clients, rounds = 60, 5 // 300 rounds in some seconds
	type count struct{ reused, dialled, stale int }
	counts, errs := make(chan count, clients), make(chan error, clients)
	for client := range clients {
		p := dialled(t, url, func(c *Config) { c.IdleTimeout = 10 * uvicornKeepAlive })
		go func() {
			n := count{}
			defer func() { counts <- n }()
			pause := time.NewTimer(0)
			defer pause.Stop()
			for round := range rounds {
				<-pause.C
				used, err := oneRound(t, p)
				e, ok := errors.AsType[*Error](err)
				switch {
				case ok && e.Stale:
					n.stale++
				case err != nil:
					errs <- fmt.Errorf("client %d, round %d: %w", client, round, err)
					return
				case used:
					n.reused++
				default:
					n.dialled++
				}
				// From 30 ms before uvicorn's bound to 29 ms after it.
				pause.Reset(uvicornKeepAlive + time.Duration(client-clients/2)*time.Millisecond)
			}
		}()
	}
	total := count{}
	for range clients {
		n := <-counts
		total = count{total.reused + n.reused, total.dialled + n.dialled, total.stale + n.stale}
	}
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	t.Logf("%d rounds: %d on a used connection, %d on a new one, %d stale", clients*rounds, total.reused, total.dialled, total.stale)
	if total.reused == 0 || total.dialled <= clients {
		t.Error("the rounds did not straddle the bound: the test shows nothing")
	}
}

// oneRound runs one exchange, and reports whether its connection was a used one.
func oneRound(t *testing.T, p *Peer) (used bool, err error) {
	a, err := p.Do(t.Context(), &Request{Path: "/plain", Body: [][]byte{[]byte("hello")}, FirstByte: patience})
	if err != nil {
		return false, err
	}
	defer a.Close()
	used = a.conn.used
	body, err := readAll(a)
	if err == nil && body != "got 5" {
		err = fmt.Errorf("body = %q", body)
	}
	return used, err
}
