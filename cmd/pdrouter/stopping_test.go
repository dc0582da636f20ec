package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
)

// A router that is told to stop still answers what comes on the connections that
// it has, as long as a request may have been on its way, and says that each answer
// is the last one there.
func TestStopLosesNoRequest(t *testing.T) {
	p, d := startEngine(t, sim.SGLang, sim.Prefill, nil), startEngine(t, sim.SGLang, sim.Decode, nil)
	var why error
	for range 3 { // the time for it is short, and this machine may be busy
		if why = askWhileStopping(t, startServe(t, workerFlags(p, d)...)); why == nil {
			return
		}
	}
	t.Error(why)
}

// askWhileStopping sends a request on a connection that has had one, and on one
// that has not, just after the router has closed its listener.
func askWhileStopping(t *testing.T, r *process) error {
	t.Helper()
	defer r.wantExit(t, 10*time.Second)
	const body = `{"model":"sim-model","messages":[{"role":"user","content":"x"}],"max_tokens":4}`
	var conns [2]net.Conn
	ask := func(conn net.Conn) (status int, last bool, err error) {
		_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, false, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Close, err
	}
	for i := range conns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	if status, last, err := ask(conns[0]); err != nil || status != http.StatusOK || last {
		t.Fatalf("before: status %d, the last one: %t, %v", status, last, err)
	}
	r.terminate(t)
	if !eventually(func() bool { return strings.Contains(r.log(), "stopping: no new requests") }) {
		t.Fatal("it does not stop")
	}
	for _, conn := range conns {
		if status, last, err := ask(conn); err != nil || status != http.StatusOK || !last {
			return fmt.Errorf("while it stops: status %d, the last one: %t, %w", status, last, err)
		}
	}
	return nil
}

// A connection on which nothing is asked does not keep the router from stopping.
func TestStopWithQuietConnections(t *testing.T) {
	p, d := startEngine(t, sim.SGLang, sim.Prefill, nil), startEngine(t, sim.SGLang, sim.Decode, nil)
	r := startServe(t, workerFlags(p, d)...)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r.terminate(t)
	r.wantExit(t, 3*time.Second)
}

// Requests that come before the first look at the workers wait for it, and probes
// of the router do not.
func TestRequestsAwaitTheFirstLook(t *testing.T) {
	silent := func() string { // a worker at which a look takes its time
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		return "http://" + ln.Addr().String()
	}
	r := startServe(t, "--prefill", silent(), "--decode", silent())
	client := newClient(t)
	began := time.Now()
	resp, err := client.Get(r.base + "/liveness")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("liveness: %v, %v", resp, err)
	}
	resp.Body.Close()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("liveness took %v", took)
	}
	resp, err = client.Post(r.base+"/v1/completions", "application/json", strings.NewReader(`{"model":"sim-model","prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if took := time.Since(began); resp.StatusCode != http.StatusServiceUnavailable || took < time.Second {
		t.Errorf("status %d after %v, want 503 once the workers have been looked at", resp.StatusCode, took)
	}
}
