package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pdrouter/exchange"
)

// readied returns a registry whose workers are ready with the given facts, one
// prefill and one decode worker for each.
func readied(t *testing.T, chooser Chooser, facts ...Facts) *Registry {
	t.Helper()
	var specs []Spec
	for i := range facts {
		specs = append(specs,
			Spec{Role: Prefill, URL: fmt.Sprintf("http://10.0.1.%d:1", i)},
			Spec{Role: Decode, URL: fmt.Sprintf("http://10.0.2.%d:1", i)})
	}
	r := newRegistry(t, "auto", specs...)
	if chooser != nil {
		r.setChooser(chooser)
	}
	for i, w := range r.all {
		r.learn(0, w, &facts[i/2], nil)
	}
	return r
}

// readyRegistry returns a registry of cfg whose workers are all ready and fit.
func readyRegistry(t testing.TB, cfg Config, chooser Chooser) *Registry {
	t.Helper()
	r, err := NewRegistry(cfg, exchange.DefaultConfig(), chooser, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	for _, w := range r.all {
		r.learn(0, w, &Facts{Dialect: "sglang", Models: []string{"m"}}, nil)
	}
	return r
}

func contains(err error, part string) bool { return strings.Contains(err.Error(), part) }

func TestLeasePairsOnlyWhatFits(t *testing.T) {
	a := Facts{Dialect: "sglang", Models: []string{"a"}, PageSize: 1}
	tests := []struct {
		name            string
		prefill, decode Facts
		model           string
		want            error // nil: leased; else matched by errors.Is, or by being a *NoneError
	}{
		{"the same on both sides", a, a, "a", nil},
		{"no model asked for", a, a, "", nil},
		{"a model that nobody serves", a, a, "b", ErrUnknownModel},
		{"another model on the other side", a, Facts{Dialect: "sglang", Models: []string{"b"}, PageSize: 1}, "a", &NoneError{Role: Decode}},
		{"no model asked for, and none that both serve", a, Facts{Dialect: "sglang", Models: []string{"b"}, PageSize: 1}, "", &NoneError{Mismatch: true}},
		{"no model asked for, and an adapter on one side", a, Facts{Dialect: "sglang", Models: []string{"a", "adapter"}, PageSize: 1}, "", nil},
		{"another dialect", a, Facts{Dialect: "vllm-nixl", Models: []string{"a"}, PageSize: 1}, "a", &NoneError{Mismatch: true, Why: "dialect sglang and vllm-nixl"}},
		{"another page size", a, Facts{Dialect: "sglang", Models: []string{"a"}, PageSize: 64}, "a", &NoneError{Mismatch: true, Why: "page size 1 and 64"}},
		{"another KV dtype", a, Facts{Dialect: "sglang", Models: []string{"a"}, PageSize: 1, KVDtype: "fp8_e5m2"}, "a", nil},
		{"another KV dtype that both tell", Facts{Dialect: "sglang", Models: []string{"a"}, KVDtype: "auto"}, Facts{Dialect: "sglang", Models: []string{"a"}, KVDtype: "fp8_e5m2"}, "a", &NoneError{Mismatch: true, Why: "KV dtype auto and fp8_e5m2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegistry(t, "auto", Spec{Role: Prefill, URL: "http://10.0.0.1:1"}, Spec{Role: Decode, URL: "http://10.0.0.2:1"})
			r.learn(0, r.all[0], &tt.prefill, nil)
			r.learn(0, r.all[1], &tt.decode, nil)

			var pair Pair
			err := r.Lease(t.Context(), Need{Model: tt.model}, &pair)

			if tt.want == nil {
				if err != nil || pair.Dialect != "sglang" {
					t.Fatalf("Lease = %q, %v, want a pair", pair.Dialect, err)
				}
				pair.Prefill.Done(nil)
				pair.Decode.Done(nil)
				return
			}
			none := &NoneError{}
			if want, ok := tt.want.(*NoneError); ok { //nolint:errorlint // the table's own value
				if !errors.As(err, &none) || *none != *want {
					t.Errorf("Lease = %v, want %v", err, want)
				}
			} else if !errors.Is(err, tt.want) {
				t.Errorf("Lease = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestDialectsOfAnyModel: a pair that serves a named model makes the fleet
// ready, also if no pair could serve a request that names none.
func TestDialectsOfAnyModel(t *testing.T) {
	r := newRegistry(t, "auto", Spec{Role: Prefill, URL: "http://10.0.0.1:1"}, Spec{Role: Decode, URL: "http://10.0.0.2:1"})
	if got := r.Dialects(""); len(got) != 0 {
		t.Errorf("Dialects before anything is known = %v, want none", got)
	}
	r.learn(0, r.all[0], &Facts{Dialect: "sglang", Models: []string{"a", "b"}}, nil)
	r.learn(0, r.all[1], &Facts{Dialect: "sglang", Models: []string{"b", "a"}}, nil)
	if got := r.Dialects(""); len(got) != 1 || got[0] != "sglang" {
		t.Errorf("Dialects = %v, want sglang", got)
	}
	if got := r.Models(); len(got) != 2 {
		t.Errorf("Models = %v, want a and b", got)
	}
}

func TestLeaseBeforeAnythingIsKnown(t *testing.T) {
	r := newRegistry(t, "auto", Spec{Role: Prefill, URL: "http://10.0.0.1:1"}, Spec{Role: Decode, URL: "http://10.0.0.2:1"})

	err := r.Lease(t.Context(), Need{Model: "m"}, new(Pair))

	// Not a 404: the model may well exist, once the engines are up.
	if none := (*NoneError)(nil); !errors.As(err, &none) {
		t.Errorf("Lease = %v, want a NoneError", err)
	}
}

// least is a Chooser by load alone.
type least struct{}

func (least) Choose(_ Need, pools []Pool) Choice {
	min := func(loads []*Load) int {
		best := 0
		for i, l := range loads {
			if l.InFlight < loads[best].InFlight {
				best = i
			}
		}
		return best
	}
	return Choice{Prefill: min(pools[0].Prefill), Decode: min(pools[0].Decode)}
}

// TestBurstSpreads leases for 100 requests at once: both legs are counted under
// one lock, so the spread is that of 100 requests one by one (BUG-074).
func TestBurstSpreads(t *testing.T) {
	f := Facts{Dialect: "sglang", Models: []string{"m"}}
	r := readied(t, least{}, f, f, f, f)
	var (
		wg    sync.WaitGroup
		pairs [100]Pair
		start = make(chan struct{})
	)
	for i := range pairs {
		wg.Go(func() {
			<-start
			if err := r.Lease(context.Background(), Need{Model: "m"}, &pairs[i]); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	for _, s := range r.Statuses() {
		if s.InFlight != 25 {
			t.Errorf("%s has %d of 100 requests, want 25", s.Worker.ID, s.InFlight)
		}
	}
	for i := range pairs {
		p := &pairs[i]
		wg.Go(func() { p.Prefill.Done(nil); p.Decode.Done(context.Canceled) })
	}
	wg.Wait()
	for _, s := range r.Statuses() {
		if s.InFlight != 0 {
			t.Errorf("%s has %d leases at rest, want 0", s.Worker.ID, s.InFlight)
		}
	}
}

func TestLeaseEndsOnce(t *testing.T) {
	r := readied(t, nil, Facts{Dialect: "sglang", Models: []string{"m"}})
	var pairs [2]Pair // the second one hides from the count that the first ends twice
	for i := range pairs {
		if err := r.Lease(t.Context(), Need{}, &pairs[i]); err != nil {
			t.Fatal(err)
		}
	}
	pairs[0].Prefill.Done(nil)
	defer func() {
		if recover() == nil {
			t.Error("a lease that ended twice did not panic")
		}
	}()
	pairs[0].Prefill.Done(nil)
}

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		name string
		spec Spec
		want string // a part of the fault; empty: none
	}{
		{"http", Spec{URL: "http://10.0.0.1:8000"}, ""},
		{"https and a name", Spec{URL: "https://gpu-1.lan:8000"}, ""},
		{"a unix socket", Spec{URL: "unix:/run/vllm/p0.sock"}, ""},
		{"a relative socket", Spec{URL: "unix:p0.sock"}, "absolute path"},
		{"no scheme", Spec{URL: "10.0.0.1:8000"}, ""},
		{"grpc", Spec{URL: "grpc://10.0.0.1:8000"}, "must be http"},
		{"a path", Spec{URL: "http://10.0.0.1:8000/v1"}, "only scheme, host and port"},
		{"a password", Spec{URL: "http://u:p@10.0.0.1:8000"}, "no user or password"},
		{"a port of the bootstrap server that is none", Spec{URL: "http://10.0.0.1:8000", BootstrapPort: 70000}, "bootstrap port 70000"},
		{"a bootstrap server of a decode worker", Spec{Role: Decode, URL: "http://10.0.0.1:8000", BootstrapPort: 8998}, "has no bootstrap server"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Specs = []Spec{tt.spec}

			err := cfg.Validate()

			if tt.name == "no scheme" {
				if err == nil {
					t.Error("Validate took a URL without a scheme")
				}
				return
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Validate(%q) = %v, want %q", tt.spec.URL, err, tt.want)
			}
		})
	}
}
