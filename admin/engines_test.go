package admin

import (
	"context"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"
)

func TestFlushCache(t *testing.T) {
	d := newDesk(t, nil)
	if got := want[Flush](t, d.ask("POST", "/flush_cache", ""), 200); got.Status != "success" || got.Total != 0 {
		t.Errorf("without workers = %+v", got)
	}
	p, e := engine(t, sim.SGLang, sim.Prefill, nil), engine(t, sim.SGLang, sim.Decode, nil)
	d.await(d.add("prefill", p.URL()), Ready)
	d.await(d.add("decode", e.URL()), Ready)
	got := want[Flush](t, d.ask("POST", "/flush_cache", ""), 200)
	if got.Status != "success" || got.Flushed != 2 || got.HTTP != 2 || got.Total != 2 || got.Failed != nil || got.Successful != nil || got.Message != "Successfully flushed cache on all 2 workers" {
		t.Errorf("answer = %+v", got)
	}
	// vLLM has it in development only, and of what is not there nothing is known.
	v := engine(t, sim.VLLMNixl, sim.Decode, nil)
	d.await(d.add("decode", v.URL()), Ready)
	d.add("decode", "http://127.0.0.1:9")
	got = want[Flush](t, d.ask("POST", "/flush_cache", ""), 206)
	if got.Status != "partial_success" || got.Flushed != 2 || len(got.Successful) != 2 || len(got.Failed) != 2 || got.Total != 4 {
		t.Fatalf("answer = %+v", got)
	}
	if f := got.Failed[0]; f.Worker != v.URL() || !strings.Contains(f.Error, "/reset_prefix_cache: status 404") || !strings.Contains(f.Error, "VLLM_SERVER_DEV_MODE=1") {
		t.Errorf("failed = %+v", f)
	}
	if f := got.Failed[1]; f.Worker != "http://127.0.0.1:9" || !strings.Contains(f.Error, "not known yet") {
		t.Errorf("failed = %+v", f)
	}
}

// A vLLM that was started for development has it.
func TestFlushCacheOfVLLM(t *testing.T) {
	d := newDesk(t, nil)
	e := engine(t, sim.VLLMNixl, sim.Prefill, nil)
	d.await(d.add("prefill", e.URL()), Ready)
	e.Fail(sim.Fault{Kind: sim.FaultStatus, Path: "/reset_prefix_cache", Status: 200, Body: "{}"})
	if got := want[Flush](t, d.ask("POST", "/flush_cache", ""), 200); got.Flushed != 1 {
		t.Errorf("answer = %+v", got)
	}
}

// SGLang empties its cache only while it has no requests, and says so.
func TestFlushCacheOfABusyEngine(t *testing.T) {
	d := newDesk(t, nil)
	e := engine(t, sim.SGLang, sim.Decode, nil)
	d.await(d.add("decode", e.URL()), Ready)
	e.Fail(sim.Fault{Kind: sim.FaultStatus, Path: "/flush_cache", Status: 400})
	got := want[Flush](t, d.ask("POST", "/flush_cache", ""), 206)
	if got.Flushed != 0 || len(got.Failed) != 1 || !strings.Contains(got.Failed[0].Error, "status 400") {
		t.Errorf("answer = %+v", got)
	}
}

func TestLoads(t *testing.T) {
	d := newDesk(t, nil)
	e := engine(t, sim.SGLang, sim.Decode, nil)
	id := d.add("decode", e.URL())
	d.add("decode", "http://127.0.0.1:9")
	var got Loads
	if !eventually(func() bool {
		got = want[Loads](t, d.ask("GET", "/get_loads", ""), 200)
		return len(got.Workers) == 2 && got.Workers[0].Load >= 0
	}) {
		t.Fatalf("answer = %+v", got)
	}
	if w := got.Workers[1]; w.Worker != "http://127.0.0.1:9" || w.WorkerType != "decode" || w.Load != -1 || w.Details != nil {
		t.Errorf("a worker that is not there = %+v, want -1", w)
	}
	if l := got.Loads; got.RankCount != 1 || len(l) != 1 || l[0].Worker != e.URL() || l[0].Capacity == nil || *l[0].Capacity < 1000 || got.Aggregate == nil || got.Aggregate.Running != 0 {
		t.Errorf("loads = %+v, aggregate %+v", l, got.Aggregate)
	}
	if w := d.worker(id); w.EngineLoad == nil || w.EngineLoad.Loads[0].Worker != "" {
		t.Errorf("worker = %+v, want its load", w)
	}
}

// A bar is shown with its cause, and one of probes makes a worker unhealthy.
func TestBarsAreShown(t *testing.T) {
	d := newDesk(t, nil)
	id := d.add("decode", engine(t, sim.SGLang, sim.Decode, nil).URL())
	d.await(id, Ready)
	s, _ := d.registry.Get(id)
	d.registry.Bar(s.Worker, workers.Breaking, time.Now().Add(time.Hour), "10 failures in a row")
	if w := d.worker(id); w.Status != Ready || len(w.Bars) != 1 || w.Bars[0].Cause != "breaker" || w.Bars[0].Until == nil || w.Bars[0].Reason != "10 failures in a row" {
		t.Errorf("worker = %+v", w)
	}
	d.registry.Bar(s.Worker, workers.Probing, workers.Forever(), "no answer")
	if w := d.worker(id); w.Status != NotReady || w.IsHealthy || len(w.Bars) != 2 || w.Bars[1].Until != nil {
		t.Errorf("worker = %+v", w)
	}
	if err := d.registry.Lease(context.Background(), workers.Need{}, &workers.Pair{}); err == nil {
		t.Error("a worker without partner is leased")
	}
}
