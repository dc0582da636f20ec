package survey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"pdrouter/sim"
)

func place(t *testing.T, url, key string) Place {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return NewPlace(url, key, transport)
}

// engine runs a simulated engine, which answers as a real one did, until the test
// ends.
func engine(t *testing.T, change func(*sim.Config)) *sim.Engine {
	t.Helper()
	cfg := sim.DefaultConfig()
	cfg.BootstrapAddr = "127.0.0.1:0"
	change(&cfg)
	e, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestAskSGLang(t *testing.T) {
	e := engine(t, func(c *sim.Config) { c.Dialect, c.Role, c.BlockSize = sim.SGLang, sim.Prefill, 16 })
	got, err := Ask(t.Context(), place(t, e.URL(), ""))
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != SGLang || got.Role != "prefill" || !got.HandsOver || got.PageSize != 16 || got.TP != 1 || got.DP != 1 ||
		got.Backend != "mooncake" || got.KVDtype != "auto" || got.Dtype != "bfloat16" || !got.Metrics ||
		got.BootstrapPort != e.BootstrapPort() || !slices.Equal(got.Models, []string{"sim-model"}) {
		t.Errorf("engine = %+v", got)
	}
	if !got.Clocked || got.Ahead.Abs() > 2*time.Second {
		t.Errorf("its clock is %v ahead, known %v", got.Ahead, got.Clocked)
	}
	b, err := AskBootstrap(t.Context(), place(t, fmt.Sprint("http://127.0.0.1:", e.BootstrapPort()), ""))
	if err != nil || b.PageSize != 16 || b.TP != 1 {
		t.Errorf("bootstrap server = %+v, %v", b, err)
	}
}

func TestAskVLLM(t *testing.T) {
	e := engine(t, func(c *sim.Config) {
		c.Dialect, c.Role, c.BlockSize, c.APIKey = sim.VLLMNixl, sim.Decode, 32, "k"
	})
	got, err := Ask(t.Context(), place(t, e.URL(), "k"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != VLLM || got.Role != "" || !got.HandsOver || got.PageSize != 32 || got.KVDtype != "auto" || !got.Metrics || got.Backend != "nixl" || got.Handoffs != 0 {
		t.Errorf("engine = %+v", got)
	}
	if _, err := Ask(t.Context(), place(t, e.URL(), "")); !isStatus(err, 401) {
		t.Errorf("without its key: %v, want status 401", err)
	}
}

func isStatus(err error, status int) bool {
	s, ok := errors.AsType[*StatusError](err)
	return ok && s.Status == status
}

func TestAskWhoIsNoEngine(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	if _, err := Ask(t.Context(), place(t, srv.URL, "")); !errors.Is(err, ErrUnknown) {
		t.Errorf("another server: %v", err)
	}
	if _, err := Ask(t.Context(), place(t, "http://127.0.0.1:9", "")); err == nil || err.Error() != "connection refused" {
		t.Errorf("nobody: %v", err)
	}
	if _, err := Ask(t.Context(), place(t, "unix:/no/such.sock", "")); err == nil {
		t.Error("a socket that is not there answers")
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{}`)) }))
	defer other.Close()
	if got, err := Ask(t.Context(), place(t, other.URL, "")); err != nil || got.Kind != VLLM || got.HandsOver {
		t.Errorf("a server that says yes to everything = %+v, %v", got, err)
	}
}

func TestClock(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var e Engine
	e.clock("Mon, 30 Nov 2026 12:01:00 GMT", at, at.Add(time.Second))
	if !e.Clocked || e.Ahead != time.Minute {
		t.Errorf("ahead by %v, want 1m0s", e.Ahead)
	}
	e = Engine{}
	if e.clock("yesterday", at, at); e.Clocked {
		t.Error("a Date that is none counts")
	}
}

func TestSum(t *testing.T) {
	page := []byte("# TYPE a_count counter\na_count{x=\"}\"} 2\na_count 3 170000\na_count_more 9\na_count{broken\n")
	if got := sum(page, "a_count"); got != 5 {
		t.Errorf("sum = %v, want 5", got)
	}
	if got := sum(page, "b"); got != -1 {
		t.Errorf("sum of nothing = %v, want -1", got)
	}
}
