package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pdrouter/admin"
	"pdrouter/keys"
	"pdrouter/sim"
)

// An operated fleet is one with an admin socket, and clients that never stop.
type operated struct {
	*fleet
	t      *testing.T
	socket string
	stop   chan struct{}
	served atomic.Int64
	group  sync.WaitGroup
}

// operate starts a fleet whose decode engines take 5 ms per token.
func operate(t *testing.T, dialect string) *operated {
	t.Helper()
	o := &operated{t: t, socket: filepath.Join(t.TempDir(), "a.sock"), stop: make(chan struct{})}
	o.fleet = newFleet(t, fleetPlan{
		dialect: dialect,
		engine:  func(c *sim.Config) { c.DecodePerToken = 5e6 },
		config: func(c *Config) {
			c.AdminSocket, c.Workers.DrainSettle, c.Workers.WarmupTime = o.socket, 0, 0
		},
	})
	return o
}

// traffic keeps n clients busy until the test ends. Every answer must be right.
func (o *operated) traffic(n int) {
	client := newClient(o.t)
	for i := range n {
		o.group.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-o.stop:
					return
				default:
				}
				complete(o.t, client, o.base, prompt(i*7+k%5, 400), 4)
				o.served.Add(1)
			}
		})
	}
	o.t.Cleanup(func() {
		close(o.stop)
		o.group.Wait()
	})
}

// await waits until so many more requests have been served.
func (o *operated) await(more int64) {
	o.t.Helper()
	until := o.served.Load() + more
	if !eventually(func() bool { return o.served.Load() >= until }) {
		o.t.Fatal("the clients are not served")
	}
}

// command runs pdrouter in this process, and returns what it says.
func (o *operated) command(args ...string) (out string, err error) {
	return runCommand(o.t, append(args, "--admin-socket", o.socket)...)
}

func runCommand(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	cmd := newRootCommand(args)
	cmd.SetOut(&b)
	cmd.SetErr(&b)
	err = cmd.ExecuteContext(t.Context())
	return b.String(), err
}

// ask sends a request to the socket, which must be accepted.
func (o *operated) ask(method, path, body string) {
	o.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", o.socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(o.t.Context(), method, "http://admin"+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted || err != nil {
		o.t.Fatalf("%s %s = %d %s, %v", method, path, resp.StatusCode, b, err)
	}
}

// worker returns how a worker is.
func (o *operated) worker(id string) admin.WorkerInfo {
	o.t.Helper()
	c, err := (&adminPlace{socket: o.socket}).client()
	if err != nil {
		o.t.Fatal(err)
	}
	defer c.close()
	var w admin.WorkerInfo
	if err := c.do(context.Background(), http.MethodGet, "/workers/"+id, &w); err != nil {
		o.t.Fatal(err)
	}
	return w
}

// Under traffic a decode worker with a stream open is drained, brought back,
// removed, and added again. The stream ends whole, nothing new lands on a
// worker that drains, and no client notices.
func TestDrainOfAWorkerUnderTraffic(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			o := operate(t, dialect)
			body := jsonOf(t, map[string]any{"model": "sim-model", "prompt": "A long story", "max_tokens": 500, "ignore_eos": true, "stream": true})
			resp, err := newClient(t).Post(o.base+"/v1/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			i := 0
			if o.decode[1].Stats().Requests == 1 {
				i = 1
			}
			engine, id := o.decode[i], fmt.Sprint("decode-", i)
			o.traffic(6)
			o.await(20)

			said := make(chan string, 1)
			go func() {
				out, err := o.command("drain", id, "--wait")
				said <- fmt.Sprint(out, err)
			}()
			if !eventually(func() bool { w := o.worker(id); return w.Status == admin.Draining && w.Load == 1 }) {
				t.Fatalf("%s is %+v, want it draining with its stream", id, o.worker(id))
			}
			before := engine.Stats().TotalRequests
			o.await(40)
			if now := engine.Stats().TotalRequests; now != before {
				t.Errorf("%s got %d requests while it drained", id, now-before)
			}
			if w := o.worker(id); w.Load != 1 {
				t.Errorf("%s = %+v: its stream has ended too early for this test", id, w)
			}
			b, err := io.ReadAll(resp.Body)
			h, parseErr := parseStream("/v1/completions", string(b))
			if want := expectAll(t, "/v1/completions", body)[0]; err != nil || parseErr != nil || !h.done || h.texts[0] != want {
				t.Errorf("the stream = %+v, %v, %v, want it whole", h, err, parseErr)
			}
			if got := <-said; got != id+" is drained\n<nil>" {
				t.Errorf("drain --wait says %q", got)
			}
			if w := o.worker(id); w.Status != admin.Drained || w.Load != 0 {
				t.Errorf("%s = %+v, want it drained", id, w)
			}
			o.await(20)
			if now := engine.Stats().TotalRequests; now != before {
				t.Errorf("%s got %d requests when it was drained", id, now-before)
			}
			o.bringBack(id, engine)
		})
	}
}

// bringBack takes back the drain of a worker, and then removes it and adds it
// again: each time the traffic returns to it.
func (o *operated) bringBack(id string, engine *sim.Engine) {
	t := o.t
	t.Helper()
	returns := func(how string) {
		t.Helper()
		before := engine.Stats().TotalRequests
		if !eventually(func() bool { return engine.Stats().TotalRequests > before+5 }) {
			t.Errorf("%s: the traffic does not return", how)
		}
	}
	if out, err := o.command("undrain", id); err != nil || out != id+" is ready\n" {
		t.Errorf("undrain says %q, %v", out, err)
	}
	returns("undrain")
	o.ask("DELETE", "/workers/"+id, "")
	if !eventually(func() bool { _, there := o.registry.Get(id); return !there }) {
		t.Errorf("%s is not forgotten", id)
	}
	o.await(20)
	o.ask("POST", "/workers", `{"url":"`+engine.URL()+`","worker_type":"decode"}`)
	returns("delete and add")
	out, err := o.command("workers")
	if err != nil || !strings.Contains(out, "decode-2   decode   ready") {
		t.Errorf("workers says %v\n%s", err, out)
	}
}

// What the data listener serves of the admin API, and to whom.
func TestAdminOnDataListener(t *testing.T) {
	tests := []struct {
		name     string
		config   func(*Config)
		key      string
		workers  int // status of GET /workers
		liveness int // that of a client's request with the same key
	}{
		{"not unless asked", func(*Config) {}, "", 404, 200},
		{"on loopback without a key", func(c *Config) { c.AdminOnData = true }, "", 200, 200},
		{"with the clients' key", func(c *Config) { c.AdminOnData, c.Router.APIKeys = true, keys.Of("client") }, "client", 200, 200},
		{"not without it", func(c *Config) { c.AdminOnData, c.Router.APIKeys = true, keys.Of("client") }, "", 401, 200},
		{"with a key of its own", func(c *Config) {
			c.AdminOnData, c.AdminKeys, c.Router.APIKeys = true, keys.Of("admin"), keys.Of("client")
		}, "admin", 200, 200},
		{"which shuts clients out", func(c *Config) {
			c.AdminOnData, c.AdminKeys, c.Router.APIKeys = true, keys.Of("admin"), keys.Of("client")
		}, "client", 401, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: tt.config})
			if status, answer, err := request(t, "GET", f.base+"/workers", tt.key, ""); status != tt.workers || err != nil {
				t.Errorf("GET /workers = %d %s, %v, want %d", status, answer, err, tt.workers)
			}
			if status, _, _ := request(t, "GET", f.base+"/liveness", tt.key, ""); status != tt.liveness {
				t.Errorf("/liveness = %d, want %d", status, tt.liveness)
			}
		})
	}
}

// Over TLS too, in both versions of HTTP, and many times on one connection.
func TestAdminOnDataListenerWithTLS(t *testing.T) {
	cert, key := newCert(t)
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) {
		c.TLSCert, c.TLSKey, c.AdminOnData, c.AdminKeys = cert, key, true, keys.Of("admin")
	}})
	for major := 1; major <= 2; major++ {
		client := newTLSClient(t, cert, major)
		for _, want := range []int{400, 401, 400} {
			req, err := http.NewRequest("POST", f.base+"/workers", strings.NewReader(`{"wieght":1}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", map[int]string{400: "Bearer admin", 401: "Bearer x"}[want])
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != want || resp.ProtoMajor != major {
				t.Errorf("answer = %s %d %s, want %d over HTTP/%d", resp.Proto, resp.StatusCode, b, want, major)
			}
		}
	}
}

// The port of the admin API asks for its key and serves nothing else, and the
// commands use it.
func TestAdminPort(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.AdminPort, c.AdminKeys = freePort(t), keys.Of("admin") }})
	base := "http://" + f.adminPort.Addr().String()
	if status, _, _ := request(t, "GET", base+"/workers", "wrong", ""); status != 401 {
		t.Errorf("with a wrong key: %d, want 401", status)
	}
	if status, _, _ := request(t, "POST", base+"/v1/completions", "admin", "{}"); status != 404 {
		t.Errorf("a client's request: %d, want 404", status)
	}
	if out, err := runCommand(t, "workers", "--admin-url", base, "--admin-api-key", "admin", "--json"); err != nil || !json.Valid([]byte(out)) {
		t.Errorf("workers says %s, %v", out, err)
	}
	if _, err := runCommand(t, "workers", "--admin-url", base); err == nil || err.Error() != "workers: A valid admin key is needed: Authorization: Bearer KEY." {
		t.Errorf("without a key: %v", err)
	}
	if f.logs.FilterMessage("open").Len() != 1 {
		t.Error("the log does not say what is open")
	}
	for _, e := range f.logs.FilterMessage("open").All() {
		got := e.ContextMap()
		if got["admin"] != strings.TrimPrefix(base, "http://")+" with --admin-api-key" || !strings.HasSuffix(fmt.Sprint(got["data"]), "to anybody who reaches it") {
			t.Errorf("open = %v", got)
		}
	}
}

// TestExamplesOfWorkers runs what the README shows of workers at run time, in
// its order, against a fleet.
func TestExamplesOfWorkers(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		missing(t, "curl is not there")
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	o := operate(t, sim.SGLang)
	third := startEngine(t, sim.SGLang, sim.Decode, nil)
	ran := 0
	for _, line := range commands(string(text)) {
		line = strings.TrimPrefix(line, "bin/")
		ours := strings.HasPrefix(line, "pdrouter workers") || strings.HasPrefix(line, "pdrouter drain") || strings.HasPrefix(line, "pdrouter undrain")
		if before, comment, ok := strings.Cut(line, "  #"); ok && ours && comment != "" {
			line = before
		}
		switch {
		case ours:
			line += " --admin-socket " + o.socket
		case !strings.Contains(line, "--unix-socket"):
			continue
		}
		ran++
		line = strings.NewReplacer("/run/pdrouter/admin.sock", o.socket, "http://127.0.0.1:21102", third.URL(), "curl ", "curl -sS --fail ").Replace(line)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if ran < 7 {
		t.Errorf("found %d examples, want at least 7", ran)
	}
}
