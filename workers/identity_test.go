package workers

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestIdentity: an engine is known again only if nothing says that it is
// another one, and enough says that it is the same.
func TestIdentity(t *testing.T) {
	began := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	spec := Spec{Role: Prefill, URL: "http://10.0.0.1:30000"}
	type engine struct {
		facts Facts
		told  Report
	}
	// base is a vLLM engine or, without a start time, one of SGLang.
	base := func(age time.Duration) engine {
		r := unknown()
		r.At, r.Started = began.Add(age), began.Add(-time.Hour)
		r.PromptTokens, r.GeneratedTokens, r.ProcessSeconds = 1000, 500, 3600
		r.KVCapacity, r.ComputedLocally, r.TransferredIn = 10_000, 800, 100
		return engine{Facts{Dialect: "vllm-nixl", Version: "0.11", Models: []string{"m", "lora-a"}}, r}
	}
	noStart := func(e *engine) { e.told.Started = time.Time{} }
	noTotals := func(e *engine) {
		nan := math.NaN()
		e.told.PromptTokens, e.told.GeneratedTokens, e.told.ProcessSeconds = nan, nan, nan
		e.told.ComputedLocally, e.told.TransferredIn = nan, nan
	}
	nothing := func(e *engine) { e.told = unknown() }
	for _, tt := range []struct {
		name   string
		age    time.Duration
		both   func(*engine) // what is so before and now
		change func(*engine) // what is so now
		want   string        // why it is not known again; empty: it is
	}{
		{"the same process, seconds later", time.Second, nil, nil, ""},
		{"the same process, a day later", 24 * time.Hour, nil, nil, ""},
		{"a start that is worked out, so not always the same", time.Second, nil, func(e *engine) { e.told.Started = e.told.Started.Add(1900 * time.Millisecond) }, ""},
		{"another process", time.Minute, nil, func(e *engine) { e.told.Started = began.Add(time.Second) }, "it runs since"},
		{"another process, by a clock set back", time.Minute, nil, func(e *engine) { e.told.Started = e.told.Started.Add(-time.Minute) }, "it runs since"},
		{"another dialect", time.Second, nil, func(e *engine) { e.facts.Dialect = "sglang" }, "it speaks sglang"},
		{"another model", time.Second, nil, func(e *engine) { e.facts.Models = []string{"n"} }, "it serves n"},
		{"another adapter", time.Second, nil, func(e *engine) { e.facts.Models = []string{"m", "lora-b"} }, ""},
		{"another version", time.Second, nil, func(e *engine) { e.facts.Version = "0.12" }, "its version is 0.12"},
		{"no start time, totals that rise", time.Minute, noStart, func(e *engine) { e.told.PromptTokens++; e.told.ProcessSeconds++ }, ""},
		{"no start time, totals that stand", time.Minute, noStart, nil, ""},
		{"no start time, prompt tokens that fell", time.Minute, noStart, func(e *engine) { e.told.PromptTokens = 0 }, "its totals began anew"},
		{"no start time, tokens that fell", time.Minute, noStart, func(e *engine) { e.told.GeneratedTokens-- }, "its totals began anew"},
		{"no start time, CPU time that fell", time.Minute, noStart, func(e *engine) { e.told.ProcessSeconds = 10 }, "its totals began anew"},
		{"a start time, and totals that fell all the same", time.Minute, nil, func(e *engine) { e.told.PromptTokens = 0 }, "its totals began anew"},
		{"no start time, an hour and more", 61 * time.Minute, noStart, nil, "does not tell when it was started"},
		{"a start time no longer told", time.Minute, nil, noStart, ""},
		{"no totals any more, soon", time.Minute, noStart, noTotals, ""},
		{"no totals any more, late", 3 * time.Minute, noStart, noTotals, "nothing tells whether"},
		{"some total in common", 3 * time.Minute, noStart, func(e *engine) { noTotals(e); e.told.ProcessSeconds = 4000 }, ""},
		{"nothing told at all, soon", time.Minute, nothing, nil, ""},
		{"nothing told at all, late", 3 * time.Minute, nothing, nil, "nothing tells whether"},
		{"nothing told at all, from the future", -3 * time.Minute, nothing, nil, "nothing tells whether"},
		{"most of the cache filled since", time.Minute, nil, func(e *engine) { e.told.ComputedLocally += 9000 }, ""},
		{"all of the cache computed since", time.Minute, nil, func(e *engine) { e.told.ComputedLocally += 10_000 }, "filled anew"},
		{"all of the cache pulled and computed since", time.Minute, nil, func(e *engine) { e.told.TransferredIn += 9000; e.told.ComputedLocally += 1000 }, "filled anew"},
		{"a cache of unknown size", time.Minute, nil, func(e *engine) { e.told.ComputedLocally += 1e6; e.told.KVCapacity = math.NaN() }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, now := base(0), base(tt.age)
			if tt.both != nil {
				tt.both(&before)
				tt.both(&now)
			}
			if tt.change != nil {
				tt.change(&now)
			}
			had := identityOf(spec, &before.facts, before.told, began)
			got := had.changed(identityOf(spec, &now.facts, now.told, began.Add(tt.age)))
			if got != "" && tt.want == "" || !strings.Contains(got, tt.want) {
				t.Errorf("changed = %q, want %q", got, tt.want)
			}
		})
	}
}
