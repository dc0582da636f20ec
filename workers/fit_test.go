package workers

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"pdrouter/exchange"
)

// sglangFacts are the facts of an SGLang engine that tells so much.
func sglangFacts(pageSize int, dtype string) *Facts {
	return &Facts{Dialect: "sglang", Models: []string{"m"}, PageSize: pageSize, KVDtype: dtype}
}

// learnAll makes a registry whose workers have said what they are.
func learnAll(t *testing.T, events *diary, prefill, decode []*Facts) *Registry {
	t.Helper()
	cfg := DefaultConfig()
	for range prefill {
		cfg.Specs = append(cfg.Specs, Spec{Role: Prefill, URL: "http://10.0.0.1:" + string(rune('1'+len(cfg.Specs)))})
	}
	for range decode {
		cfg.Specs = append(cfg.Specs, Spec{Role: Decode, URL: "http://10.0.0.2:" + string(rune('1'+len(cfg.Specs)))})
	}
	r, err := NewRegistry(cfg, exchange.DefaultConfig(), first{}, events.note)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	for i, f := range append(prefill, decode...) {
		r.learn(0, r.all[i], f, nil)
	}
	return r
}

// TestMisfit: what keeps two workers apart is said once, when the later of the
// two has said what it is.
func TestMisfit(t *testing.T) {
	tests := []struct {
		name            string
		prefill, decode []*Facts
		want            string // the reasons
		pools           int
	}{
		{"all alike", []*Facts{sglangFacts(64, "auto")}, []*Facts{sglangFacts(64, "auto")}, "", 1},
		{
			"another page size",
			[]*Facts{sglangFacts(64, "auto")},
			[]*Facts{sglangFacts(1, "auto")},
			"prefill worker prefill-0 (http://10.0.0.1:1) and decode worker decode-0 (http://10.0.0.2:2) cannot be paired: page size 64 and 1", 0,
		},
		{
			"both",
			[]*Facts{sglangFacts(64, "auto")},
			[]*Facts{sglangFacts(1, "fp8_e5m2")},
			"prefill worker prefill-0 (http://10.0.0.1:1) and decode worker decode-0 (http://10.0.0.2:2) cannot be paired: page size 64 and 1, KV dtype auto and fp8_e5m2", 0,
		},
		{
			"one of three decodes, and several prefills",
			[]*Facts{sglangFacts(64, ""), sglangFacts(64, "")},
			[]*Facts{sglangFacts(64, ""), sglangFacts(16, "")},
			"prefill worker prefill-0 (http://10.0.0.1:1) and decode worker decode-1 (http://10.0.0.2:4) cannot be paired: page size 64 and 16; nor can 1 more of the other role", 1,
		},
		{"two pools that are meant", []*Facts{sglangFacts(64, ""), {Dialect: "vllm-nixl", Models: []string{"m"}}}, []*Facts{sglangFacts(64, ""), {Dialect: "vllm-nixl", Models: []string{"m"}}}, "", 2},
		{"one that does not tell is like the others", []*Facts{sglangFacts(0, "")}, []*Facts{sglangFacts(64, "auto")}, "", 1},
		{"one that does not tell among several is on its own", []*Facts{sglangFacts(0, "")}, []*Facts{sglangFacts(64, ""), sglangFacts(1, "")}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var events diary
			r := learnAll(t, &events, tt.prefill, tt.decode)

			var got []string
			for _, line := range events.take() {
				if strings.HasPrefix(line, "misfit") {
					_, reason, _ := strings.Cut(line, ", ")
					got = append(got, reason)
				}
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("said %q, want %q", got, tt.want)
			}
			if n := len(r.pools["m"]); n != tt.pools {
				t.Errorf("%d pools, want %d", n, tt.pools)
			}
		})
	}
}

// TestComplete: what a bootstrap server tells counts where the engine itself
// said nothing, and nowhere else.
func TestComplete(t *testing.T) {
	var events diary
	r := learnAll(t, &events, []*Facts{sglangFacts(0, "auto")}, []*Facts{sglangFacts(1, "auto")})
	w := r.all[0]
	var pair Pair
	if err := r.Lease(t.Context(), Need{Model: "m"}, &pair); err != nil {
		t.Fatal(err)
	}
	old := pair.Prefill.Facts
	r.Complete(w, 64, "fp8_e5m2")
	if s, _ := r.Get(w.ID); s.Facts.PageSize != 64 || s.Facts.KVDtype != "auto" {
		t.Errorf("facts are %+v, want page size 64 and the engine's own KV dtype", s.Facts)
	}
	if old.PageSize != 0 {
		t.Error("the facts of a lease have changed under it")
	}
	drop(&pair)
	none := new(NoneError)
	if err := r.Lease(t.Context(), Need{Model: "m"}, &pair); !errors.As(err, &none) || none.Why != "page size 64 and 1" {
		t.Errorf("Lease = %v, want that they do not fit", err)
	}
	events.take()
	r.Complete(w, 64, "")
	r.Complete(w, 16, "")
	if again := events.take(); len(again) > 0 {
		t.Errorf("what is known already is said again: %q", again)
	}
}

// TestLeasePair is about a pair that was named.
func TestLeasePair(t *testing.T) {
	minute := func() time.Time { return time.Now().Add(time.Minute) }
	tests := []struct {
		name string
		set  func(r *Registry, p, d *Worker)
		want string // the error; empty: it is leased
	}{
		{"nothing is against it", func(*Registry, *Worker, *Worker) {}, ""},
		{"another pair is barred", func(r *Registry, p, _ *Worker) { r.BarPair(p, worker(t, r, "decode-0"), minute()) }, ""},
		{"a bar that is over", func(r *Registry, p, _ *Worker) { r.Bar(p, Breaking, time.Now(), "") }, ""},
		{"an open breaker", func(r *Registry, _, d *Worker) { r.Bar(d, Breaking, minute(), "") }, "every decode worker is left out for now (breaker)"},
		{"backpressure, which is not waited for", func(r *Registry, p, _ *Worker) { r.Bar(p, Backpressure, minute(), "") }, "every prefill worker is left out for now (backpressure)"},
		{"a barred pair", func(r *Registry, p, d *Worker) { r.BarPair(p, d, minute()) }, "no prefill and decode worker may be paired now"},
		{"a drain", func(r *Registry, p, _ *Worker) { r.Drain(p.ID) }, "no prefill worker is ready"},
		{"a removed worker", func(r *Registry, _, d *Worker) { r.Remove(d.ID) }, "no decode worker is ready"},
		{"another page size", func(r *Registry, p, d *Worker) {
			r.learn(1, p, sglangFacts(64, ""), nil)
			r.learn(1, d, sglangFacts(1, ""), nil)
		}, "no prefill and decode worker fit one another (page size 64 and 1)"},
		{"a judge who refuses", func(r *Registry, _, d *Worker) {
			r.SetJudge(&picky{permits: func(_, decode *Worker) bool { return decode != d }})
		}, "no prefill and decode worker may be paired now"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fleet(t, 2, first{})
			p, d := worker(t, r, "prefill-1"), worker(t, r, "decode-1")
			tt.set(r, p, d)
			var pair Pair
			err := r.LeasePair(t.Context(), p, d, &pair)
			if err == nil {
				if tt.want != "" || names(&pair) != "prefill-1 decode-1" {
					t.Errorf("leased %s, want %q", names(&pair), tt.want)
				}
				drop(&pair)
			} else if err.Error() != tt.want {
				t.Errorf("LeasePair = %q, want %q", err, tt.want)
			}
			for _, s := range r.Statuses() {
				if s.InFlight != 0 {
					t.Errorf("%s has %d leases at rest", s.Worker.ID, s.InFlight)
				}
			}
		})
	}
}

// TestUnansweredIsTold: the judge learns whether an engine that gave no report
// was silent or answered something else.
func TestUnansweredIsTold(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	tests := []struct {
		name   string
		engine http.HandlerFunc
		silent bool
	}{
		{"status 500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, false},
		{"not found", http.NotFound, false},
		{"a connection that is cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-gate:
			case <-r.Context().Done():
			}
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, w := known(t, "vllm-nixl", serve(t, tt.engine))
			r.cfg.ProbeTimeout = 50 * time.Millisecond
			judge := &listener{}
			r.SetJudge(judge)
			r.readReport(t.Context(), w)
			if len(judge.failed) != 1 || len(judge.told) != 0 {
				t.Fatalf("told %v and %v, want one failure", judge.told, judge.failed)
			}
			f := new(Fault)
			if silent := errors.As(judge.failed[0], &f) && f.Kind == Unreachable; silent != tt.silent {
				t.Errorf("told %v, want silence %v", judge.failed[0], tt.silent)
			}
		})
	}
	r, w := known(t, "vllm-nixl", "http://127.0.0.1:1")
	judge := &listener{}
	r.SetJudge(judge)
	for _, err := range []error{&exchange.Error{Stale: true, Err: errors.New("EOF")}, &exchange.Error{Err: exchange.ErrTooManyConnections}} {
		r.read = func(context.Context, *Worker) (Report, error) { return Report{}, err }
		r.readReport(t.Context(), w)
	}
	if len(judge.failed) != 0 {
		t.Errorf("what is our own doing was told: %v", judge.failed)
	}
}
