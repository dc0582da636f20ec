package health

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"pdrouter/exchange"
	"pdrouter/workers"
)

var _ Registry = (*workers.Registry)(nil)

// vllm is an engine that says what it is, and no more.
func vllm(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/version":
			_, _ = w.Write([]byte(`{"version":"0.11.0"}`))
		case "/v1/models":
			_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
		case "/metrics":
			_, _ = w.Write([]byte("vllm:nixl_num_failed_transfers 0\n"))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A longestIdle chooser takes the workers that were leased longest ago.
type longestIdle struct{}

func (longestIdle) Choose(_ workers.Need, pools []workers.Pool) workers.Choice {
	longest := func(loads []*workers.Load) (best int) {
		for i, l := range loads {
			if l.Picked < loads[best].Picked {
				best = i
			}
		}
		return best
	}
	return workers.Choice{Prefill: longest(pools[0].Prefill), Decode: longest(pools[0].Decode)}
}

// TestWithTheRealRegistry leases until breakers open.
func TestWithTheRealRegistry(t *testing.T) {
	cfg := workers.DefaultConfig()
	cfg.Specs = []workers.Spec{
		{Role: workers.Prefill, URL: vllm(t)}, {Role: workers.Decode, URL: vllm(t)}, {Role: workers.Decode, URL: vllm(t)},
	}
	r, err := workers.NewRegistry(cfg, exchange.DefaultConfig(), longestIdle{}, func(workers.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.SetJudge(NewJudge(DefaultConfig(), r, func(e Event) { t.Logf("%+v", e) }))
	r.Look(t.Context())
	bad := r.Statuses()[1].Worker
	used := map[string]int{}
	lease := func(outcome func(*workers.Worker) error) error {
		var pair workers.Pair
		if err := r.Lease(t.Context(), workers.Need{Model: "m"}, &pair); err != nil {
			return err
		}
		used[pair.Decode.Worker.ID]++
		pair.Prefill.Done(nil)
		pair.Decode.Done(outcome(pair.Decode.Worker))
		return nil
	}
	for range 100 {
		if err := lease(func(w *workers.Worker) error {
			if w == bad {
				return sick()
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if used[bad.ID] != 10 {
		t.Errorf("the sick worker got %d requests, want 10", used[bad.ID])
	}
	for range 10 {
		if err := lease(func(*workers.Worker) error { return gone() }); err != nil {
			t.Fatal(err)
		}
	}
	err = lease(func(*workers.Worker) error { return nil })
	none, ok := errors.AsType[*workers.NoneError](err)
	if !ok || none.Role != workers.Decode || none.Cause != workers.Breaking || time.Until(none.Until) > lastOpen+pastExpiry {
		t.Errorf("Lease = %+v, want one that says when to come again", err)
	}
}
