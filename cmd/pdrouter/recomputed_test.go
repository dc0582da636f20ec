package main

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"
)

const recomputed = "pdrouter_worker_recomputed_tokens_total"

// The tokens of prompts that decode had to compute itself are counted, as its
// engine says, and those that came over are not (I10).
func TestRecomputedTokensAreCounted(t *testing.T) {
	const size, tokens = 8192, 8192 / 4 // of a simulated engine
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{
				dialect: dialect,
				engine:  func(c *sim.Config) { c.LoadFailure, c.HandshakeTimeout = "recompute", 5*time.Millisecond },
				config:  func(c *Config) { c.Workers.LoadInterval = 20 * time.Millisecond },
			})
			client := newClient(t)
			for i := range 4 {
				complete(t, client, f.base, prompt(i, size), 2)
			}
			was := f.read(t, page{}, 4*tokens)
			if n := was.series(recomputed); n != 2 || was.sum(recomputed) != 0 {
				t.Fatalf("%s has %d series and the sum %v, want 0 of each decode worker", recomputed, n, was.sum(recomputed))
			}
			if dialect == sim.SGLang {
				return // a hand-off that fails is an error, and nothing is computed again
			}
			for _, d := range f.decode {
				d.Fail(sim.Fault{Kind: sim.FaultCutOff})
			}
			complete(t, client, f.base, prompt(5, size), 2)
			if !eventually(func() bool { return f.scraped(t).sum(recomputed) >= tokens }) {
				t.Fatalf("%s = %v, want the %d tokens of a prompt that did not come over", recomputed, f.scraped(t).sum(recomputed), tokens)
			}
			known := 0.0
			for _, d := range f.decode {
				known += float64(d.Stats().FirstComputed)
			}
			if got := f.scraped(t).sum(recomputed); got != known {
				t.Errorf("%s = %v, the engines know of %v", recomputed, got, known)
			}
		})
	}
}

// All series of a worker exist before its engine has been heard of, and what is
// not known is not 0.
func TestSeriesOfAWorkerExistFromTheFirstScrape(t *testing.T) {
	cfg := localConfig()
	for _, role := range []workers.Role{workers.Prefill, workers.Decode} { // nobody is there
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: role, URL: fmt.Sprintf("http://127.0.0.1:%d", freePort(t))})
	}
	f := &fleet{}
	f.start(t, cfg)
	p := f.scraped(t)
	for _, family := range []string{
		"engine_running_requests", "engine_waiting_requests", "engine_transfer_queue_requests", "kv_evictable_tokens",
		"engine_preempted_requests_total", "engine_prompt_tokens_total", "engine_generated_tokens_total", "engine_transferred_in_tokens_total",
		"engine_computed_tokens_total", "engine_transfers_total", "engine_transfer_seconds_total", "engine_transfer_failures_total", "engine_transfers_expired_total",
		"prefix_cache_hits_total", "prefix_cache_queries_total",
		"kv_usage_ratio", "kv_used_tokens", "kv_capacity_tokens", "kv_reserved_tokens", "kv_seconds_to_full", "kv_report_age_seconds", "kv_ledger_drift_ratio",
	} {
		if n := p.series("pdrouter_worker_" + family); n != 2 || !math.IsNaN(p.sum("pdrouter_worker_"+family)) {
			t.Errorf("pdrouter_worker_%s has %d series and the sum %v, want NaN of each worker", family, n, p.sum("pdrouter_worker_"+family))
		}
	}
	if n := p.series(recomputed); n != 1 || !math.IsNaN(p.sum(recomputed)) {
		t.Errorf("%s has %d series and the sum %v, want NaN of the decode worker", recomputed, n, p.sum(recomputed))
	}
	if n := p.series("pdrouter_worker_draining"); n != 2 || p.sum("pdrouter_worker_draining") != 0 {
		t.Errorf("pdrouter_worker_draining has %d series and the sum %v, want two of 0", n, p.sum("pdrouter_worker_draining"))
	}
}
