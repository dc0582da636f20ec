package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"pdrouter/sim"
)

// A drained is a router process, about to get SIGTERM, with requests in flight.
type drained struct {
	*process
	t               *testing.T
	client          *http.Client
	health          string // URL of --health-check-port
	prefill, decode *sim.Engine
	streams         []io.Reader
	want            string      // what each request is answered
	status          chan int    // of the JSON request
	answer          chan string // likewise
}

// inFlight starts a router with this grace, and sends it three streams, of
// which the first token has come, and one request for JSON. Each takes tokens
// tokens of 20 ms.
func inFlight(t *testing.T, dialect, grace string, tokens int) *drained {
	t.Helper()
	slow := func(c *sim.Config) {
		c.DecodePerToken = 20 * time.Millisecond
		c.DisconnectDelay = time.Minute // what they learn sooner they were told
		if dialect == sim.VLLMNixl {
			c.DisconnectDelay = 0 // nobody can tell vLLM but by leaving
		}
	}
	port := freePort(t)
	d := &drained{
		t: t, client: newClient(t), health: fmt.Sprint("http://127.0.0.1:", port),
		prefill: startEngine(t, dialect, sim.Prefill, slow), decode: startEngine(t, dialect, sim.Decode, slow),
		status: make(chan int, 1), answer: make(chan string, 1),
	}
	d.process = startServe(t, append(workerFlags(d.prefill, d.decode), "--shutdown-grace-period-secs", grace, "--health-check-port", fmt.Sprint(port))...)
	if !eventually(func() bool { return d.get(d.health+"/readiness") == 200 }) {
		t.Fatal("the router is not ready")
	}
	body := func(stream bool) string {
		return jsonOf(t, map[string]any{"model": "sim-model", "prompt": "A long story", "max_tokens": tokens, "ignore_eos": true, "stream": stream})
	}
	d.want = expectAll(t, "/v1/completions", body(true))[0]
	for range 3 {
		resp, err := d.client.Post(d.base+"/v1/completions", "application/json", strings.NewReader(body(true)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		d.streams = append(d.streams, io.Reader(resp.Body)) // its head comes with the first token
	}
	go func() {
		status, answer := 0, ""
		resp, err := d.client.Post(d.base+"/v1/completions", "application/json", strings.NewReader(body(false)))
		if err == nil {
			b, _ := io.ReadAll(resp.Body) // what is missing shows
			resp.Body.Close()
			status, answer = resp.StatusCode, string(b)
		}
		d.status <- status
		d.answer <- answer
	}()
	if !eventually(func() bool { return d.decode.Stats().Running == 4 }) {
		t.Fatalf("decode is %+v, want 4 that run", d.decode.Stats())
	}
	return d
}

// get returns the status of a URL, 0 if there is none.
func (d *drained) get(url string) int {
	resp, err := d.client.Get(url)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// wantClosed wants that nobody listens for new clients any more.
func (d *drained) wantClosed() {
	d.t.Helper()
	refused := func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://"))
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	if !eventually(refused) {
		d.t.Error("a new connection is not refused")
	}
}

// readStreams returns what is left of each stream.
func (d *drained) readStreams() []heard {
	d.t.Helper()
	var all []heard
	for _, stream := range d.streams {
		b, err := io.ReadAll(stream)
		if err != nil {
			d.t.Errorf("a stream was cut: %v after %q", err, b)
		}
		h, err := parseStream("/v1/completions", string(b))
		if err != nil {
			d.t.Error(err)
		}
		all = append(all, h)
	}
	return all
}

// After SIGTERM no request comes in, and those in flight run to their end
// (BUG-099).
func TestDrainLetsRequestsEnd(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			d := inFlight(t, dialect, "60", 90)
			silent, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			idle, idleAnswers := keptAlive(t, d.base)
			d.terminate(t)
			if !eventually(func() bool { return d.get(d.health+"/readiness") == 503 }) {
				t.Error("/readiness is not 503")
			}
			if got := d.get(d.health + "/liveness"); got != 200 {
				t.Errorf("/liveness = %d, want 200", got)
			}
			d.wantClosed()
			wantEnd(t, "a connection without a request", silent, silent)
			wantEnd(t, "a connection that was kept alive", idle, idleAnswers)
			if got := d.decode.Stats().Running; got != 4 {
				t.Errorf("%d requests run at this time, want 4", got)
			}
			for i, h := range d.readStreams() {
				if !h.done || h.texts[0] != d.want {
					t.Errorf("stream %d = %+v, want %q and [DONE]", i, h, d.want)
				}
			}
			if status, answer := <-d.status, <-d.answer; status != 200 || !strings.Contains(answer, d.want) {
				t.Errorf("JSON = %d %s, want 200 and %q", status, answer, d.want)
			}
			d.wantExit(t, 3*time.Second)
		})
	}
}

// keptAlive returns a connection on which one request has been answered.
func keptAlive(t *testing.T, base string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	answers := bufio.NewReader(conn)
	if status := askOn(t, conn, answers, "/liveness"); status != 200 {
		t.Fatalf("/liveness = %d", status)
	}
	return conn, answers
}

// askOn sends a GET on a connection and returns the status of the answer.
func askOn(t *testing.T, conn net.Conn, answers *bufio.Reader, path string) int {
	t.Helper()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// wantEnd wants that a connection is closed, and not left open with nobody to
// answer: what is sent on it would be lost.
func wantEnd(t *testing.T, what string, conn net.Conn, answers io.Reader) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := answers.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read from %s = %d bytes, %v, want its end", what, n, err)
	}
}

// What the grace period does not suffice for is told so, and so are the engines.
func TestDrainCutsWhatIsLeft(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			d := inFlight(t, dialect, "1", 3000)
			d.terminate(t)
			for i, h := range d.readStreams() {
				if h.done || h.half || h.code != "shutting_down" || h.texts[0] == "" || !strings.HasPrefix(d.want, h.texts[0]) {
					t.Errorf("stream %d = %+v, want the beginning of its answer, then an error event shutting_down and no [DONE]", i, h)
				}
			}
			status, answer := <-d.status, <-d.answer
			if code, err := parseEnvelope(answer); status != 503 || code != "shutting_down" || err != nil {
				t.Errorf("JSON = %d %s, want 503 shutting_down in the envelope", status, answer)
			}
			d.wantExit(t, 3*time.Second)
			if !eventually(func() bool { return d.decode.Stats().UsedBlocks == 0 && d.decode.Stats().Running == 0 }) {
				t.Errorf("decode goes on: %+v", d.decode.Stats())
			}
			if got := d.decode.Stats().Aborted; got != 4 {
				t.Errorf("decode has aborted %d requests, want 4", got)
			}
		})
	}
}

// http.Server.Shutdown waits five seconds for a connection that has not said a
// word. Clients that open connections ahead must not delay the exit, on either
// listener.
func TestSilentConnectionsDoNotDelayTheExit(t *testing.T) {
	prefill, decode := startEngine(t, sim.SGLang, sim.Prefill, nil), startEngine(t, sim.SGLang, sim.Decode, nil)
	p := startServe(t, workerFlags(prefill, decode)...)
	for _, base := range []string{p.base, p.base, p.metrics} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if base == p.base {
			_, _ = conn.Write([]byte("POST /v1/chat/com")) // half a head is no request either
		}
	}
	keptAlive(t, p.base)
	p.terminate(t)
	p.wantExit(t, 3*time.Second)
	if strings.Contains(p.log(), "grace period is over") {
		t.Error("the log says that requests were cut")
	}
}
