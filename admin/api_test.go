package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"pdrouter/exchange"
	"pdrouter/policy"
	"pdrouter/sim"
	"pdrouter/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A desk is an API in front of a running registry.
type desk struct {
	t        *testing.T
	registry *workers.Registry
	api      *API
	logs     *observer.ObservedLogs
	base     string
	client   *http.Client
}

// newDesk runs a registry without workers and serves its API over a unix
// socket, until the test ends.
func newDesk(t *testing.T, change func(*workers.Config)) *desk {
	t.Helper()
	cfg := workers.DefaultConfig()
	cfg.ProbeInterval, cfg.LoadInterval, cfg.DrainSettle = 10*time.Millisecond, 20*time.Millisecond, 0
	if change != nil {
		change(&cfg)
	}
	registry, err := workers.NewRegistry(cfg, exchange.DefaultConfig(), policy.PrefixHash{}, func(workers.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	background(t, registry.Run)
	t.Cleanup(registry.Close)
	core, logs := observer.New(zapcore.InfoLevel)
	d := &desk{t: t, registry: registry, api: New(registry, unseen(), zap.New(core)), logs: logs, base: "http://admin"}
	path := filepath.Join(t.TempDir(), "a.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: d.api.Handler(Access{})}
	background(t, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { srv.Close() })
		defer stop()
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	d.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return d
}

// background runs f until the test ends.
func background(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// engine runs a simulated engine until the test ends.
func engine(t *testing.T, dialect, role string, change func(*sim.Config)) *sim.Engine {
	t.Helper()
	cfg := sim.DefaultConfig()
	cfg.Dialect, cfg.Role, cfg.BootstrapAddr = dialect, role, "127.0.0.1:0"
	if change != nil {
		change(&cfg)
	}
	e, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	background(t, e.Run)
	return e
}

// An answer is what a request was answered with.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request with a body, unless that is empty.
func (d *desk) ask(method, path, body string) answer {
	d.t.Helper()
	got, err := d.send(method, path, body)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

func (d *desk) send(method, path, body string) (answer, error) {
	req, err := http.NewRequest(method, d.base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	return do(d.client, req)
}

func do(client *http.Client, req *http.Request) (answer, error) {
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

// want decodes an answer that must have this status.
func want[T any](t *testing.T, got answer, status int) T {
	t.Helper()
	var v T
	if got.status != status {
		t.Fatalf("answer = %d %s, want %d", got.status, got.body, status)
	}
	if err := json.Unmarshal([]byte(got.body), &v); err != nil {
		t.Fatalf("answer %s: %v", got.body, err)
	}
	return v
}

// wantError wants an error of that status whose message contains words.
func wantError(t *testing.T, got answer, status int, code, words string) {
	t.Helper()
	var e struct{ Error, Code string }
	err := json.Unmarshal([]byte(got.body), &e)
	if err != nil || got.status != status || e.Code != code || !strings.Contains(e.Error, words) || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("answer = %d %s, want %d %s with %q", got.status, got.body, status, code, words)
	}
}

// add adds a worker and returns its ID.
func (d *desk) add(role, url string) string {
	d.t.Helper()
	return want[Accepted](d.t, d.ask("POST", "/workers", `{"url":"`+url+`","worker_type":"`+role+`"}`), 202).WorkerID
}

func (d *desk) worker(id string) WorkerInfo {
	d.t.Helper()
	return want[WorkerInfo](d.t, d.ask("GET", "/workers/"+id, ""), 200)
}

// await waits until a worker has a status.
func (d *desk) await(id, status string) WorkerInfo {
	d.t.Helper()
	var w WorkerInfo
	if !eventually(func() bool { w = d.worker(id); return w.Status == status }) {
		d.t.Fatalf("%s is %+v, want %s", id, w, status)
	}
	return w
}

// eventually waits until so is true, and reports whether it came to be.
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

func TestAccess(t *testing.T) {
	d := newDesk(t, nil)
	tests := []struct {
		name   string
		access Access
		edit   func(*http.Request)
		status int
	}{
		{"whoever reaches a socket may", Access{}, func(*http.Request) {}, 200},
		{"a key is asked for", Access{Keys: []string{"right"}}, func(*http.Request) {}, 401},
		{"a wrong one", Access{Keys: []string{"right"}}, bearer("Bearer wrong"), 401},
		{"the beginning of it", Access{Keys: []string{"right"}}, bearer("Bearer righ"), 401},
		{"without its scheme", Access{Keys: []string{"right"}}, bearer("right"), 401},
		{"an empty one", Access{Keys: []string{"right"}}, bearer("Bearer "), 401},
		{"the right one", Access{Keys: []string{"other", "right"}}, bearer("bearer right"), 200},
		{"a page of another origin", Access{}, func(r *http.Request) { r.Method = "POST"; r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"an older browser's", Access{}, func(r *http.Request) { r.Method = "POST"; r.Header.Set("Origin", "http://evil.example") }, 403},
		{"loopback by its address", Access{Loopback: true}, func(r *http.Request) { r.Host = "127.0.0.1:30001" }, 200},
		{"loopback in IPv6", Access{Loopback: true}, func(r *http.Request) { r.Host = "[::1]:30001" }, 200},
		{"loopback by name", Access{Loopback: true}, func(r *http.Request) { r.Host = "localhost" }, 200},
		{"a name that somebody bound to it", Access{Loopback: true}, func(r *http.Request) { r.Host = "evil.example:30001" }, 403},
		{"a name that only looks like it", Access{Loopback: true}, func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(d.api.Handler(tt.access))
			defer srv.Close()
			req, err := http.NewRequest("GET", srv.URL+"/workers", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			tt.edit(req)
			got, err := do(srv.Client(), req)
			if err != nil || got.status != tt.status || tt.status >= 400 && !strings.Contains(got.body, `"code":`) {
				t.Errorf("answer = %d %s, %v, want %d", got.status, got.body, err, tt.status)
			}
		})
	}
	if n := d.logs.FilterMessage("admin request refused").Len(); n < 5 {
		t.Errorf("%d refusals are logged", n)
	}
}

func bearer(value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", value) }
}

// A refusal is the same for every path: nobody learns without a key what there
// is.
func TestNothingIsToldWithoutAKey(t *testing.T) {
	d := newDesk(t, nil)
	srv := httptest.NewServer(d.api.Handler(Access{Keys: []string{"right"}}))
	defer srv.Close()
	for _, path := range []string{"/workers", "/workers/prefill-0", "/nothing", "/flush_cache", "/get_loads"} {
		req, _ := http.NewRequest("PUT", srv.URL+path, strings.NewReader("{"))
		got, err := do(srv.Client(), req)
		if err != nil || got.status != 401 || got.header.Get("Www-Authenticate") != "Bearer" {
			t.Errorf("%s = %d %s, %v, want 401", path, got.status, got.body, err)
		}
	}
}

// Somebody who announces a body and does not send it is answered all the same,
// and does not hold the connection.
func TestBodiesThatDoNotCome(t *testing.T) {
	d := newDesk(t, nil)
	d.api.patience = 50 * time.Millisecond
	for _, tt := range []struct {
		name   string
		access Access
		status int
	}{
		{"without a key", Access{Keys: []string{"k"}}, 401},
		{"with all rights", Access{}, 408},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(d.api.Handler(tt.access))
			defer srv.Close()
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(5 * time.Second))
			io.WriteString(conn, "POST /workers HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
			answers := bufio.NewReader(conn)
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
			if _, err := answers.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("after the answer: %v, want the end", err)
			}
			if resp.StatusCode != tt.status || !resp.Close {
				t.Errorf("answer = %s, close %t, want %d and the end", resp.Status, resp.Close, tt.status)
			}
		})
	}
}

func TestWhatIsNotThere(t *testing.T) {
	d := newDesk(t, nil)
	wantError(t, d.ask("GET", "/workers/prefill-0", ""), 404, "WORKER_NOT_FOUND", "prefill-0")
	wantError(t, d.ask("DELETE", "/workers/http%3A%2F%2Fa", ""), 404, "WORKER_NOT_FOUND", "not found")
	wantError(t, d.ask("POST", "/workers/x/drain", ""), 404, "WORKER_NOT_FOUND", "not found")
	wantError(t, d.ask("GET", "/elsewhere", ""), 404, "NOT_FOUND", "/elsewhere")
	got := d.ask("PUT", "/workers", "{}")
	wantError(t, got, 405, "METHOD_NOT_ALLOWED", "GET, POST")
	if got.header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow = %q", got.header.Get("Allow"))
	}
	wantError(t, d.ask("GET", "/flush_cache", ""), 405, "METHOD_NOT_ALLOWED", "POST")
	wantError(t, d.ask("POST", "/workers", `{"url":"`+strings.Repeat("x", maxBody)+`"}`), 413, "PAYLOAD_TOO_LARGE", "65536")
	list := want[List](t, d.ask("GET", "/workers", ""), 200)
	if list.Workers == nil || list.Total != 0 {
		t.Errorf("list = %+v, want an empty one", list)
	}
}

// A key goes in and never comes out: not in an answer, an error or the log.
func TestKeysAreWriteOnly(t *testing.T) {
	d := newDesk(t, func(c *workers.Config) { c.APIKey = "SECRET-all" })
	e := engine(t, sim.SGLang, sim.Decode, func(c *sim.Config) { c.APIKey = "SECRET-2" })
	var seen bytes.Buffer
	note := func(a answer) answer { seen.WriteString(a.body); return a }
	id := want[Accepted](t, note(d.ask("POST", "/workers", `{"url":"`+e.URL()+`","worker_type":"decode","api_key":"SECRET-1"}`)), 202).WorkerID
	if !eventually(func() bool { return strings.Contains(d.worker(id).Reason, "401") }) {
		t.Errorf("with a wrong key the worker is %+v", d.worker(id))
	}
	note(d.ask("GET", "/workers/"+id, ""))
	next := want[Accepted](t, note(d.ask("PATCH", "/workers/"+id, `{"api_key":"SECRET-2"}`)), 202).WorkerID
	d.await(next, Ready)
	note(d.ask("GET", "/workers", ""))
	note(d.ask("POST", "/workers", `{"url":"`+e.URL()+`","worker_type":"decode","api_key":"SECRET-3"}`))
	note(d.ask("POST", "/workers", `{"url":"http://a","worker_type":"decode","api_key":"SECRET 4"}`))
	note(d.ask("POST", "/workers", `{"url":"http://a","worker_type":"decode","api_key":["SECRET-5"]}`))
	note(d.ask("GET", "/get_loads", ""))
	note(d.ask("POST", "/flush_cache", ""))
	for _, e := range d.logs.All() {
		b, _ := json.Marshal(e.ContextMap())
		seen.Write(b)
	}
	if strings.Contains(seen.String(), "SECRET") {
		t.Errorf("a key comes out: %s", seen.String())
	}
}
