package main

import (
	"slices"
	"strings"
	"testing"

	"pdrouter/sim"
	"pdrouter/workers"
)

const (
	prefixHits    = "pdrouter_worker_prefix_cache_hits_total"
	prefixQueries = "pdrouter_worker_prefix_cache_queries_total"
)

// increases returns by how much a family has risen on each prefill worker: what
// sum by (worker) (increase(family[5m])) is to Prometheus.
func (f *fleet) increases(before, after page, family string) []float64 {
	rise := make([]float64, len(f.prefill))
	for i, e := range f.prefill {
		worker := `worker="` + e.URL() + `"`
		rise[i] = after.sum(family, worker, `role="prefill"`) - before.sum(family, worker, `role="prefill"`)
	}
	return rise
}

// read scrapes until every engine has been read and the prefill engines say that
// so many tokens of prompts, or more, were looked up since before.
func (f *fleet) read(t *testing.T, before page, tokens float64) page {
	t.Helper()
	var p page
	if !eventually(func() bool {
		p = scrape(t, f.scrape.Addr().String())
		sum := 0.0
		for _, n := range f.increases(before, p, prefixQueries) {
			sum += n
		}
		return p.series(prefixHits) == 4 && p.series(prefixQueries) == 4 && sum >= tokens
	}) {
		t.Fatalf("the engines were not read: %v looked up, want %v", f.increases(before, p, prefixQueries), tokens)
	}
	return p
}

// A person sends the same long prompt six times and sees the hits of one prefill
// worker rise, as its engine counts them; and thirty different ones go to all.
func TestOneWorkersPrefixHitsRise(t *testing.T) {
	const size, tokens = 8192, 8192 / 4 // of a simulated engine
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: dialect, engine: computes})
			client := newClient(t)
			before := f.read(t, page{}, 0)
			for range 6 {
				complete(t, client, f.base, prompt(7, size), 4)
			}
			same := f.read(t, before, 6*tokens)
			f.wantForecast(t, same, 6, tokens)
			hits := f.increases(before, same, prefixHits)
			if slices.Sort(hits); hits[0] != 0 || hits[1] < 5*(tokens-128) || hits[1] > 5*tokens {
				t.Errorf("the same prompt six times: hits rise by %v, want on one worker by five prompts of %d tokens, less a block each", hits, tokens)
			}
			for i := range 30 {
				complete(t, client, f.base, prompt(30+i, size), 4)
			}
			others := f.read(t, same, 30*tokens)
			queries := f.increases(same, others, prefixQueries)
			if slices.Sort(queries); queries[0] < 10*tokens {
				t.Errorf("thirty different prompts: %v tokens were looked up, want those of ten prompts at least on each", queries)
			}
			for i, n := range f.increases(same, others, prefixHits) {
				if n > 1024 { // some begin alike, by chance
					t.Errorf("thirty different prompts: hits of %d rise by %v", i, n)
				}
			}
		})
	}
}

// wantForecast wants the router's own figures to say what the engines' do, after
// so many times the same prompt.
func (f *fleet) wantForecast(t *testing.T, p page, times, tokens float64) {
	t.Helper()
	const hit, prompts = "pdrouter_prefill_hit_tokens_total", "pdrouter_prefill_prompt_tokens_total"
	engines := 0.0
	for _, n := range f.increases(page{}, p, prefixHits) {
		engines += n
	}
	for _, tt := range []struct {
		family, label  string
		least, highest float64
	}{
		{prompts, `kind="predicted"`, times * tokens, times * tokens},
		{prompts, `kind="observed"`, times * tokens, times * tokens},
		{hit, `kind="predicted"`, (times - 1) * (tokens - 128), (times - 1) * tokens},
		{hit, `kind="observed"`, engines, engines},
		{"smg_cache_aware_policy_branch_total", `branch="tree_match"`, times - 1, times - 1},
		{"smg_cache_aware_policy_branch_total", `branch="expected_wait_fallback"`, 1, 1},
		{"smg_cache_aware_match_ratio_sum", "", times - 1, times - 1},
		{"smg_worker_selection_total", `policy="cache_aware"`, 2 * times, 2 * times},
		{"pdrouter_lease_wait_seconds_count", "", times, times},
		{"pdrouter_policy_index_blocks", `role="prefill"`, tokens * 4 / 512, tokens * 4 / 512},
		{"pdrouter_policy_bytes_per_token", "", 4, 4.01},
		{"pdrouter_policy_prefill_backlog_seconds", "", 0, 0},
	} {
		if got := p.sum(tt.family, tt.label); !p.has(tt.family) || got < tt.least || got > tt.highest {
			t.Errorf("%s{%s} = %v, want %v to %v", tt.family, tt.label, got, tt.least, tt.highest)
		}
	}
}

// A worker that is removed takes its series with it.
func TestSeriesOfARemovedWorkerGo(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.Workers.DrainSettle = 0 }})
	client := newClient(t)
	for i := range 8 {
		complete(t, client, f.base, prompt(i, 2048), 2)
	}
	gone := `worker="` + f.prefill[1].URL() + `"`
	p := f.read(t, page{}, 0)
	if p.sum("pdrouter_legs_total", gone) == 0 {
		t.Fatal("the worker had no leg")
	}
	for _, s := range f.registry.Statuses() {
		if s.Worker.Role == workers.Prefill && s.Worker.URL == f.prefill[1].URL() {
			if err := f.registry.Remove(s.Worker.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !eventually(func() bool { return f.logs.FilterMessageSnippet("worker gone").Len() == 1 }) {
		t.Fatal("the worker has not gone")
	}
	p = scrape(t, f.scrape.Addr().String())
	for series := range p {
		if strings.Contains(series, gone) {
			t.Errorf("%s is still there", series)
		}
	}
}
