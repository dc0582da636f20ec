package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"pdrouter/sim"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// An otlpReceiver is a collector of OTLP over HTTP that keeps what comes.
type otlpReceiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*trace.Span
}

func newReceiver(t *testing.T) *otlpReceiver {
	t.Helper()
	c := &otlpReceiver{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s: %v", r.URL, r.Header.Get("Content-Type"), err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of returns the spans of a trace by their names, once its root is there.
func (c *otlpReceiver) of(t *testing.T, traceID string) map[string][]*trace.Span {
	t.Helper()
	byName := map[string][]*trace.Span{}
	if !eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.spans {
			if hex.EncodeToString(s.TraceId) == traceID {
				byName[s.Name] = append(byName[s.Name], s)
			}
		}
		return len(byName) > 0
	}) {
		t.Fatalf("trace %s has not come", traceID)
	}
	return byName
}

// A tapped fleet is one whose engines' requests are looked at on their way.
type tapped struct {
	*fleet
	collector *otlpReceiver

	mu      sync.Mutex
	parents map[string][]string // by trace ID: role and parent span ID of each leg
	states  []string
}

func newTapped(t *testing.T, dialect string) *tapped {
	t.Helper()
	f := &tapped{collector: newReceiver(t), parents: map[string][]string{}}
	roles := []string{"prefill", "prefill", "decode", "decode"} // in the order of newFleet
	f.fleet = newFleet(t, fleetPlan{
		dialect: dialect,
		via: func(e *sim.Engine) string {
			role := roles[0]
			roles = roles[1:]
			return f.tap(t, role, e)
		},
		config: func(c *Config) {
			c.Tracing.Enabled, c.Tracing.Endpoint = true, f.collector.URL+"/v1/traces"
			c.Router.Retries.Backoff = 0
		},
	})
	return f
}

// tap returns a URL at which an engine of that role is reached.
func (f *tapped) tap(t *testing.T, role string, e *sim.Engine) string {
	to, err := url.Parse(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			panic(http.ErrAbortHandler)
		},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if parent := strings.Split(r.Header.Get("Traceparent"), "-"); len(parent) == 4 && strings.HasPrefix(r.URL.Path, "/v1/") {
			f.mu.Lock()
			f.parents[parent[1]] = append(f.parents[parent[1]], role+" "+parent[2]+" "+parent[3])
			f.states = append(f.states, r.Header.Get("Tracestate"))
			f.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.Close(); transport.CloseIdleConnections() })
	return srv.URL
}

// told returns what engines were told of a trace.
func (f *tapped) told(traceID string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.parents[traceID]))
}

// ask sends a chat request in a trace of its own, and reads the answer.
func (f *tapped) ask(ctx context.Context, t *testing.T, n int, stream bool, flags string) (traceID string, status int) {
	t.Helper()
	traceID = fmt.Sprintf("%032x", n+1)
	body := jsonOf(t, map[string]any{
		"model": "sim-model", "stream": stream, "max_tokens": 20,
		"messages": []any{map[string]any{"role": "user", "content": "the secret of the prompt " + prompt(n, 3000)}},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+"/v1/chat/completions", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-"+traceID+"-00000000000000aa-"+flags)
	req.Header.Set("Tracestate", "vendor=1")
	resp, err := newClient(t).Do(req)
	if err != nil {
		return traceID, 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return traceID, resp.StatusCode
}

// wantLegs wants the engines to have been told the spans of their legs. A leg that
// was given up may not have reached its engine.
func (f *tapped) wantLegs(t *testing.T, traceID string, spans map[string][]*trace.Span) {
	t.Helper()
	told := f.told(traceID)
	legs := map[string]bool{}
	for _, role := range []string{"prefill", "decode"} {
		for _, s := range spans[role] {
			leg := role + " " + hex.EncodeToString(s.SpanId) + " 01"
			if legs[leg] = true; !slices.Contains(told, leg) && !strings.Contains(s.String(), "given_up") {
				t.Errorf("no engine was told %q, but %q", leg, told)
			}
		}
	}
	for _, leg := range told {
		if !legs[leg] {
			t.Errorf("an engine was told %q, which is no span of a leg", leg)
		}
	}
}

func TestTracing(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newTapped(t, dialect)
			t.Run("a stream", func(t *testing.T) {
				id, _ := f.ask(t.Context(), t, 1, true, "01")
				f.wantSpans(t, id, 1, "accept admit choose attempt prefill hand-off decode relay")
			})
			t.Run("an answer in JSON", func(t *testing.T) {
				id, _ := f.ask(t.Context(), t, 2, false, "01")
				f.wantSpans(t, id, 1, "accept admit choose attempt prefill decode relay")
			})
			t.Run("a client that wants no trace", func(t *testing.T) {
				id, _ := f.ask(t.Context(), t, 3, false, "00")
				if got := f.told(id); !slices.Equal(got, []string{"decode 00000000000000aa 00", "prefill 00000000000000aa 00"}) {
					t.Errorf("engines were told %q, want what the client sent", got)
				}
			})
			t.Run("a second attempt", f.triedAgain)
			t.Run("a failure", f.failing)
			t.Run("a client that leaves", f.left)
			f.wantStates(t)
			f.wantNoSecrets(t)
		})
	}
}

// wantSpans wants a trace with spans of those names, as many attempts as that,
// and the root below the client's span.
func (f *tapped) wantSpans(t *testing.T, id string, attempts int, names string) map[string][]*trace.Span {
	t.Helper()
	spans := f.collector.of(t, id)
	root := spans["POST /v1/chat/completions"]
	if len(root) != 1 || hex.EncodeToString(root[0].ParentSpanId) != "00000000000000aa" {
		t.Fatalf("root %v", root)
	}
	if len(spans["attempt"]) != attempts {
		t.Errorf("%d attempts, want %d", len(spans["attempt"]), attempts)
	}
	for name := range strings.FieldsSeq(names) {
		if len(spans[name]) == 0 {
			t.Errorf("there is no span %s", name)
		}
	}
	if len(spans) != len(strings.Fields(names))+1 {
		t.Errorf("%d names of spans, want %s", len(spans), names)
	}
	for _, all := range spans {
		for _, s := range all {
			if s.StartTimeUnixNano < root[0].StartTimeUnixNano || s.EndTimeUnixNano > root[0].EndTimeUnixNano || s.EndTimeUnixNano < s.StartTimeUnixNano {
				t.Errorf("%s is not within its request", s.Name)
			}
		}
	}
	f.wantLegs(t, id, spans)
	return spans
}

func (f *tapped) triedAgain(t *testing.T) {
	for _, e := range f.decode {
		e.Fail(sim.Fault{Kind: sim.FaultStatus, Status: 503, Count: 1, Leg: sim.Decode})
		defer e.ClearFaults()
	}
	id, status := f.ask(t.Context(), t, 4, true, "01")
	if status != 200 {
		t.Fatalf("status %d", status)
	}
	n := len(f.collector.of(t, id)["attempt"])
	if n < 2 {
		t.Fatalf("%d attempts, want several", n)
	}
	spans := f.wantSpans(t, id, n, "accept admit choose attempt prefill hand-off decode relay")
	if events := spans["POST /v1/chat/completions"][0].Events; len(events) != n-1 || events[0].Name != "retry" {
		t.Errorf("events %v of %d attempts", events, n)
	}
}

func (f *tapped) failing(t *testing.T) {
	for _, e := range f.prefill {
		e.Fail(sim.Fault{Kind: sim.FaultStatus, Status: 400, Body: `{"error":{"message":"a secret of the engine"}}`, Leg: sim.Prefill})
		defer e.ClearFaults()
	}
	id, status := f.ask(t.Context(), t, 5, true, "01")
	if status != 400 {
		t.Fatalf("status %d", status)
	}
	spans := f.collector.of(t, id)
	if s := spans["prefill"]; len(s) != 1 || s[0].Status.GetCode() != trace.Status_STATUS_CODE_ERROR {
		t.Errorf("prefill %v", s)
	}
	if s := spans["POST /v1/chat/completions"]; s[0].Status != nil {
		t.Errorf("a 400 is an error of ours: %v", s[0].Status)
	}
}

func (f *tapped) left(t *testing.T) {
	for _, e := range f.decode {
		e.Fail(sim.Fault{Kind: sim.FaultStall, Tokens: 2})
		defer e.ClearFaults()
	}
	ctx, leave := context.WithCancel(t.Context())
	asked := make(chan string)
	go func() {
		id, _ := f.ask(ctx, t, 6, true, "01")
		asked <- id
	}()
	if !eventually(func() bool {
		all := f.handler.Records().Running()
		return len(all) == 1 && all[0].Events > 0
	}) {
		t.Error("no token has come")
	}
	leave()
	spans := f.wantSpans(t, <-asked, 1, "accept admit choose attempt prefill hand-off decode relay")
	if root := spans["POST /v1/chat/completions"][0]; root.Status != nil || !strings.Contains(root.String(), "client_gone") {
		t.Errorf("root %v", root)
	}
}

// wantStates wants the client's tracestate to have gone on.
func (f *tapped) wantStates(t *testing.T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, state := range f.states {
		if state != "vendor=1" {
			t.Errorf("an engine was told the state %q", state)
		}
	}
}

// wantNoSecrets wants nothing in any span of what was asked, of what engines said,
// or by which they could be reached.
func (f *tapped) wantNoSecrets(t *testing.T) {
	f.collector.mu.Lock()
	defer f.collector.mu.Unlock()
	for _, s := range f.collector.spans {
		if text := s.String(); strings.Contains(text, "secret") || strings.Contains(text, "127.0.0.1") || strings.Contains(text, "http://") {
			t.Errorf("a span says too much: %s", text)
		}
	}
	if len(f.collector.spans) < 30 {
		t.Errorf("%d spans in all", len(f.collector.spans))
	}
}

func TestTracesAreFlushedAtTheEnd(t *testing.T) {
	f := newTapped(t, sim.SGLang)
	id, _ := f.ask(t.Context(), t, 1, true, "01")
	f.stop()
	f.collector.of(t, id)
}

// TestWithoutACollectorRequestsGoOn: nothing is slower, one line is logged, and
// what is lost is counted.
func TestWithoutACollectorRequestsGoOn(t *testing.T) {
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	for name, endpoint := range map[string]string{"away": fmt.Sprintf("127.0.0.1:%d", freePort(t)), "hangs": hangs.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: sim.VLLMNixl, config: func(c *Config) {
				c.Tracing.Enabled, c.Tracing.Endpoint = true, endpoint
				c.ShutdownGrace = 0
			}})
			for range 3 {
				wantChat(t, newClient(t), f.base, 1)
			}
			if !scrape(t, f.scrape.Addr().String()).has("pdrouter_traces_total") {
				t.Error("traces are not counted")
			}
			f.stop()
			if !eventually(func() bool { return f.tracer.Counts().Failed == 6 }) {
				t.Errorf("counted %+v, want 6 failed", f.tracer.Counts())
			}
			if n := f.logs.FilterMessageSnippet("traces cannot be sent").Len(); n != 1 {
				t.Errorf("it was logged %d times", n)
			}
		})
	}
}
