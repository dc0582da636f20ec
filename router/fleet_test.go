package router

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/exchange"
	"pdrouter/metrics"
	"pdrouter/policy"
	"pdrouter/workers"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An engine is a scripted engine: it serves the pages that identify it, notes
// what it is sent, and leaves the legs to script.
type engine struct {
	*httptest.Server
	script http.HandlerFunc

	mu     sync.Mutex
	legs   []received
	aborts []string      // bodies of /abort_request
	closed chan struct{} // one token per leg whose connection was closed under it
}

// A received is a leg as an engine got it.
type received struct {
	path, body string
	header     http.Header
}

func newEngine(t testing.TB, script http.HandlerFunc) *engine {
	t.Helper()
	e := &engine{script: script, closed: make(chan struct{}, 1000)}
	e.Server = httptest.NewServer(http.HandlerFunc(e.serve))
	t.Cleanup(func() {
		e.CloseClientConnections()
		e.Close()
	})
	return e
}

func (e *engine) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch r.URL.Path {
	case "/v1/models":
		w.Header().Set("Connection", "close") // so that the legs begin on fresh connections
		io.WriteString(w, `{"object":"list","data":[{"id":"m"}]}`)
	case "/server_info", "/get_server_info", "/version":
		w.Header().Set("Connection", "close")
		http.NotFound(w, r)
	case "/abort_request":
		w.Header().Set("Connection", "close") // likewise
		e.mu.Lock()
		e.aborts = append(e.aborts, string(body))
		e.mu.Unlock()
	default:
		e.mu.Lock()
		e.legs = append(e.legs, received{r.URL.Path, string(body), r.Header})
		e.mu.Unlock()
		stop := context.AfterFunc(r.Context(), func() { e.closed <- struct{}{} })
		defer stop()
		r.Body = io.NopCloser(bytes.NewReader(body))
		e.script(w, r)
	}
}

func (e *engine) got() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]received(nil), e.legs...)
}

func (e *engine) aborted() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.aborts...)
}

// A fleet is a router in front of scripted engines.
type fleet struct {
	*httptest.Server
	handler         *Handler
	registry        *workers.Registry
	metrics         *prometheus.Registry
	prefill, decode *engine
	logs            *observer.ObservedLogs

	prefills, decodes []*engine
}

// newFleet starts one engine of either role and a router in front of them.
func newFleet(t testing.TB, dialect string, prefill, decode http.HandlerFunc, change ...func(*Config)) *fleet {
	t.Helper()
	return newLargeFleet(t, dialect, []http.HandlerFunc{prefill}, []http.HandlerFunc{decode}, change...)
}

// newLargeFleet starts an engine for each script and a router in front of them.
// The first of either role are the fleet's prefill and decode.
func newLargeFleet(t testing.TB, dialect string, prefills, decodes []http.HandlerFunc, change ...func(*Config)) *fleet {
	t.Helper()
	return newChosenFleet(t, dialect, policy.PrefixHash{}, [2][]http.HandlerFunc{prefills, decodes}, change...)
}

// newChosenFleet is newLargeFleet with a policy of the test's own, and scripts by
// role.
func newChosenFleet(t testing.TB, dialect string, chooser workers.Chooser, scripts [2][]http.HandlerFunc, change ...func(*Config)) *fleet {
	t.Helper()
	f := &fleet{metrics: prometheus.NewRegistry()}
	cfg := workers.DefaultConfig()
	cfg.Dialect = dialect
	for _, script := range scripts[workers.Prefill] {
		e := newEngine(t, script)
		f.prefills = append(f.prefills, e)
		cfg.Specs = append(cfg.Specs, workers.Spec{Role: workers.Prefill, URL: e.URL, BootstrapPort: portIf(dialect == "sglang", 8998)})
	}
	for _, script := range scripts[workers.Decode] {
		e := newEngine(t, script)
		f.decodes = append(f.decodes, e)
		cfg.Specs = append(cfg.Specs, workers.Spec{Role: workers.Decode, URL: e.URL})
	}
	f.prefill, f.decode = f.prefills[0], f.decodes[0]
	registry, err := workers.NewRegistry(cfg, exchange.DefaultConfig(), chooser, func(e workers.Event) {
		if e.To != workers.Ready {
			t.Errorf("worker %s: %s", e.Worker.ID, e.Reason)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	registry.Look(t.Context())
	core, logs := observer.New(zapcore.InfoLevel)
	rc := DefaultConfig()
	rc.Retries.Attempts = 1 // unless the test is about more
	for _, c := range change {
		c(&rc)
	}
	f.registry, f.logs = registry, logs
	f.handler = New(rc, registry, metrics.New(f.metrics, metrics.DefaultConfig()), zap.New(core))
	f.Server = httptest.NewServer(f.handler)
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
		f.handler.Wait()
		registry.Close()
		f.wantIdle(t)
	})
	return f
}

func portIf(ok bool, port int) int {
	if ok {
		return port
	}
	return 0
}

// wantIdle checks that at rest nothing is under way (I1, I8).
func (f *fleet) wantIdle(t testing.TB) {
	t.Helper()
	// A handler that hijacked its connection is not waited for by its server.
	wait(t, "every request to have ended", func() bool { return len(f.handler.Ages()) == 0 })
	for _, s := range f.registry.Statuses() {
		if s.InFlight != 0 {
			t.Errorf("%s has %d leases at rest, want 0", s.Worker.ID, s.InFlight)
		}
	}
	if n := f.handler.BufferedBytes(); n != 0 {
		t.Errorf("%d bytes of bodies are held at rest, want 0", n)
	}
}

// An answer is what a client read.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
	took   time.Duration
}

func (f *fleet) post(t *testing.T, path, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return do(t, req)
}

// dial sends a request on a connection of its own and leaves the answer to the
// caller.
func (f *fleet) dial(t *testing.T, path, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	return conn
}

// wait waits until what is so.
func wait(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}

func do(t *testing.T, req *http.Request) answer {
	t.Helper()
	began := time.Now()
	client := http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err, time.Since(began)}
}

// legOutcome returns how many legs of role ended that way, by the metric.
func (f *fleet) legOutcome(t *testing.T, role, outcome string) float64 {
	t.Helper()
	return f.value(t, "pdrouter_legs_total", map[string]string{"role": role, "outcome": outcome})
}

// value returns a counter or gauge, summed over the series that have labels.
func (f *fleet) value(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			match := len(labels)
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == l.GetValue() {
					match--
				}
			}
			if match == 0 {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// Scripts for engines.

const (
	chatRequest   = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	streamRequest = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	chatAnswer    = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	roleEvent     = `data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	finishEvent   = `data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	doneEvent     = "data: [DONE]\n\n"
	errorEvent    = `data: {"error":{"object":"error","message":"Decode transfer failed in room 7","type":"INTERNAL_SERVER_ERROR","param":null,"code":500}}` + "\n\n"
)

func tokenEvent(i int) string {
	return fmt.Sprintf(`data: {"id":"x","choices":[{"index":0,"delta":{"content":" t%d"},"finish_reason":null}]}`+"\n\n", i)
}

// reply answers with a status and a JSON body.
func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// events streams the events, each flushed, and ends.
func events(list ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range list {
			io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
	}
}

// then runs the scripts one after another on one answer.
func then(scripts ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, s := range scripts {
			s(w, r)
		}
	}
}

// reset breaks the connection off with an RST.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// raw writes bytes of its own to the connection and closes it.
func raw(bytes string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		io.WriteString(conn, bytes)
		conn.Close()
	}
}
