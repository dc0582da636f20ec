package doctor

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pdrouter/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// newCase returns a case of one prefill and one decode worker, with times that do
// not make tests wait.
func newCase(prefill, decode string) Case {
	return Case{
		Workers: []Worker{{ID: "prefill-0", Role: "prefill", URL: prefill}, {ID: "decode-0", Role: "decode", URL: decode}},
		Dialect: "auto", EngineIdle: 50 * time.Millisecond, ClientIdle: 90 * time.Second, MostRequests: 1, Unit: "pdrouter.service", Proc: "/proc",
		Transport: func() *http.Transport { return &http.Transport{} },
	}
}

// wantFinding wants one of that check and status whose text contains words.
func wantFinding(t *testing.T, found []Finding, check string, status Status, words string) {
	t.Helper()
	for _, f := range found {
		if f.Check == check && f.Status == status && strings.Contains(f.Where+": "+f.What, words) {
			if status == Fault && f.Do == "" {
				t.Errorf("%+v does not say what to do", f)
			}
			return
		}
	}
	t.Errorf("no %s of %s with %q among\n%+v", status, check, words, found)
}

// Engines that are as they should be are found so, whole and without a fault.
func TestWell(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			c := newCase(engine(t, dialect, sim.Prefill, nil).URL(), engine(t, dialect, sim.Decode, nil).URL())
			steps := 0
			found := Examine(t.Context(), c, func(_, all int) { steps = all })
			if Count(found, Fault)+Count(found, Warning) != 0 || steps != 9 {
				t.Errorf("%d steps, found %+v", steps, found)
			}
			wantFinding(t, found, Engines, OK, "page size 128, KV auto")
			wantFinding(t, found, Pairs, OK, "1 of 1 pairs fit")
			wantFinding(t, found, KeepAlive, OK, "decode-0")
			wantFinding(t, found, Clocks, OK, "2 engines")
			if dialect == sim.SGLang {
				wantFinding(t, found, HandOffs, OK, "its bootstrap server answers")
			} else {
				wantFinding(t, found, HandOffs, Unknown, "it cannot be known from here")
			}
		})
	}
}

// Each contradiction between what real engines say, and with what was configured,
// is found.
func TestContradictions(t *testing.T) {
	page := func(n int) func(*sim.Config) { return func(c *sim.Config) { c.BlockSize = n } }
	dumb := func(c *sim.Config) { c.NoMetrics = true }
	for _, tt := range []struct {
		name            string
		dialect, other  string // of prefill and of decode
		prefill, decode func(*sim.Config)
		change          func(*Case)
		check           string
		status          Status
		words           string
	}{
		{name: "a decode engine among prefill", change: func(c *Case) { c.Workers[0].URL = c.Workers[1].URL }, check: Engines, status: Fault, words: "prefill-0 http://127.0.0.1"},
		{name: "page sizes", decode: page(64), check: Pairs, status: Fault, words: "prefill-0+decode-0: the page size is 128 on prefill, and 64 on decode"},
		{name: "page sizes of vLLM", dialect: sim.VLLMNixl, decode: page(64), check: Pairs, status: Fault, words: "the page size is 128 on prefill, and 64 on decode"},
		{name: "no pair at all", decode: page(64), check: Pairs, status: Fault, words: "no request can be served"},
		{name: "two kinds of engines", other: sim.VLLMNixl, check: Pairs, status: Fault, words: "prefill is sglang, and decode vllm"},
		{name: "models", decode: func(c *sim.Config) { c.Model = "other" }, check: Pairs, status: Fault, words: "the model is sim-model on prefill, and other on decode"},
		{name: "metrics are off", decode: dumb, check: Engines, status: Warning, words: "it has no metrics"},
		{name: "metrics of vLLM are off", dialect: sim.VLLMNixl, decode: dumb, check: Engines, status: Fault, words: "nothing else tells how vLLM hands over"},
		{name: "a key", decode: func(c *sim.Config) { c.APIKey = "k" }, check: Engines, status: Fault, words: "it asks for a key"},
		{name: "nobody", change: func(c *Case) { c.Workers[1].URL = "http://127.0.0.1:9" }, check: Engines, status: Fault, words: "decode-0 http://127.0.0.1:9: connection refused"},
		{name: "another dialect", change: func(c *Case) { c.Dialect = "vllm-nixl" }, check: Engines, status: Fault, words: "--dialect is vllm-nixl, and it speaks sglang"},
		{name: "another bootstrap port", change: func(c *Case) { c.Workers[0].BootstrapPort = 9 }, check: HandOffs, status: Fault, words: "its bootstrap port is configured as 9, and it says"},
		{name: "short keep-alive", decode: func(c *sim.Config) { c.KeepAlive = 200 * time.Millisecond }, change: func(c *Case) { c.EngineIdle = 2 * time.Second }, check: KeepAlive, status: Warning, words: "it closes a connection without a request after"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.dialect == "" {
				tt.dialect = sim.SGLang
			}
			if tt.other == "" {
				tt.other = tt.dialect
			}
			c := newCase(engine(t, tt.dialect, sim.Prefill, tt.prefill).URL(), engine(t, tt.other, sim.Decode, tt.decode).URL())
			if tt.change != nil {
				tt.change(&c)
			}
			wantFinding(t, Examine(t.Context(), c, func(int, int) {}), tt.check, tt.status, tt.words)
		})
	}
}

// One engine that fits nobody is a fault, though the others are served.
func TestOneThatFitsNobody(t *testing.T) {
	c := newCase(engine(t, sim.SGLang, sim.Prefill, nil).URL(), engine(t, sim.SGLang, sim.Decode, nil).URL())
	c.Workers = append(c.Workers, Worker{ID: "decode-1", Role: "decode", URL: engine(t, sim.SGLang, sim.Decode, func(c *sim.Config) { c.BlockSize = 16 }).URL()})
	found := Examine(t.Context(), c, func(int, int) {})
	wantFinding(t, found, Pairs, OK, "1 of 2 pairs fit")
	wantFinding(t, found, Pairs, Fault, "prefill-0+decode-1: the page size")
}

func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	c := newCase(engine(t, sim.SGLang, sim.Prefill, nil).URL(), engine(t, sim.SGLang, sim.Decode, nil).URL())
	c.EngineIdle = time.Minute
	time.AfterFunc(50*time.Millisecond, stop)
	began := time.Now()
	Examine(ctx, c, func(int, int) {})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("went on for %v", took)
	}
}
