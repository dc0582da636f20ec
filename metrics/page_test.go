package metrics

import (
	"fmt"
	"os"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// TestMetricsPage compares docs/metrics.md with what is exported. After a change:
// go test ./metrics -update.
func TestMetricsPage(t *testing.T) {
	const path = "../docs/metrics.md"
	want := metricsPage(families(t))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s does not show what is exported; run this test with -update and look at the change", path)
	}
}

// metricsPage is docs/metrics.md.
func metricsPage(all []*dto.MetricFamily) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(pageHead, "'", "`"))
	b.WriteString("| name | type | labels | unit | meaning | whose |\n|---|---|---|---|---|---|\n")
	for _, f := range all {
		name := f.GetName()
		whose := map[bool]string{true: "both", false: "ours"}[strings.HasPrefix(name, "smg_")]
		if !strings.HasPrefix(name, "smg_") && !strings.HasPrefix(name, "pdrouter_") {
			continue
		}
		labels := strings.ReplaceAll(labelsOf(f), ",", "`, `")
		if labels != "" {
			labels = "`" + labels + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), labels, unit(name), f.GetHelp(), whose)
	}
	b.WriteString(strings.ReplaceAll(pageLeftOut, "'", "`"))
	b.WriteString("| families | why |\n|---|---|\n")
	for _, l := range leftOuts() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(l.families, " ", "`, `"), l.why)
	}
	return b.String()
}

// unit returns in what a family is told, by its name.
func unit(name string) string {
	words := strings.Split(strings.TrimSuffix(name, "_total"), "_")
	if strings.HasSuffix(name, "_gb_s") {
		return "GB/s"
	}
	switch last := words[len(words)-1]; last {
	case "ms", "seconds", "bytes", "tokens", "blocks", "ratio", "requests":
		return last
	case "rate", "usage", "utilization":
		return "ratio"
	case "throughput":
		return "tokens/s"
	case "state", "health", "http2", "draining", "followed", "exact", "info":
		return ""
	}
	if strings.Contains(name, "_prefix_cache_") {
		return "tokens"
	}
	return "1"
}

const pageHead = `# Metrics

'/metrics' at '--prometheus-host':'--prometheus-port' (29001) tells what stands below. This page is made from what is exported, and a test compares the families that are smg's with what smg 1.13 exports: names, types, labels and buckets.

- **Forms.** Text, OpenMetrics (with exemplars) or protobuf (with native histograms), as the scraper asks; compressed, if it takes that. Four pages are made at a time, and the next is a 503; what takes 10 s is too. If one part cannot be told, the rest is there all the same, and 'promhttp_metric_handler_errors_total' rises.
- **Workers.** All series of a worker exist from the first scrape after it was configured or added, and go when it is removed and its last request has ended. A worker is known by its URL and role; of one that is removed and added again while it has requests, both count as one. ('smg_engine_*' that have a label 'model' begin when the engine has said what it serves.)
- **What is not known is NaN**, never 0 and never absent: what the engine has not told yet, or does not tell. NaN in a sum makes it NaN, so filter: 'sum by (role) (pdrouter_worker_engine_waiting_requests >= 0)'. With counters, filter what 'rate' gives: 'sum(rate(pdrouter_worker_engine_generated_tokens_total[5m]) >= 0)'; as long as a NaN is the first in the window the rate is not known. SGLang shows some counters from their first event on.
- **Totals of engines** are as the engine counts them, from 0 with its process: a restart is a reset, which 'rate' understands. When a worker is not ready, its totals stay what they were, and its gauges are NaN.
- **Labels** are closed sets, workers, and models that a worker serves or has served: the first 1024 of these by name, all others as 'other'. No client makes a series.
- An engine of several data-parallel ranks is told as one, with 'dp_rank' "0" where smg has that label. Where smg sets -1, for removed workers and such that are not ready, series are gone or NaN: 'smg_engine_token_usage >= 0' is the same with both.
- [engine-metrics.md](engine-metrics.md) says which of an engine's own names each number comes from.
- Beside these there are 'go_*', 'process_*' and 'promhttp_*'.

## How full is the KV cache

| question | PromQL |
|---|---|
| How full, by worker | 'pdrouter_worker_kv_usage_ratio' |
| When is it full, in seconds | 'pdrouter_worker_kv_seconds_to_full < +Inf' |
| How old is what is known | 'pdrouter_worker_kv_report_age_seconds' |
| How full, by role | 'sum by (role) (pdrouter_worker_kv_used_tokens >= 0) / sum by (role) (pdrouter_worker_kv_capacity_tokens >= 0)' |
| Preemptions per second | 'rate(pdrouter_worker_engine_preempted_requests_total[5m]) >= 0' |
| Tokens per second | 'sum(rate(pdrouter_worker_engine_generated_tokens_total{role="decode"}[5m]) >= 0)' |
| Seconds of a hand-off | 'rate(pdrouter_worker_engine_transfer_seconds_total[5m]) / rate(pdrouter_worker_engine_transfers_total[5m])' |
| Which share of prompts decode computed itself (I10) | 'sum(rate(pdrouter_worker_recomputed_tokens_total[5m]) >= 0) / sum(rate(pdrouter_worker_engine_prompt_tokens_total{role="decode"}[5m]) >= 0)' |

## Computed though it should have come over

'pdrouter_worker_recomputed_tokens_total' is how many prompt tokens a decode worker computed. With hand-offs that work it stands still.

- **vLLM**: 'vllm:prompt_tokens_by_source_total{source="local_compute"}' of decode. A prompt that came over does not count there; what decode found in its own cache does not either. What counts is a prompt whose hand-off failed while the engine runs with 'kv_load_failure_policy: recompute' (by default it answers 500), one for which prefill named no hand-off ('smg_pd_kv_transfer_failures_total' counts those), and the end of a prompt that fills no block, in engines that hand over whole blocks only. A prompt that is computed again after a preemption is not counted by vLLM: see 'pdrouter_worker_engine_preempted_requests_total'. Neither 'external_prefix_cache_hits' nor 'prompt_tokens_cached_by_source_total{source="p2p"}' proves a hand-off: both rise when it fails.
- **SGLang**: 'sglang:prefill_effective_tokens_total{mode="input"}' of decode. A decode engine of SGLang computes no prompts: a request without hand-off is a 400, one whose hand-off fails a 500. The counter is there, and 0. ('uncached_prompt_tokens_histogram' of decode says what prefill had to compute.)
- **Requests of others**, sent straight to the decode engine, count like any others: no engine tells them apart. If there are such, compare it with what it was without.
- Engines that do not tell (older ones, and SGLang without '--enable-metrics'): NaN.

## What is exported

`

const pageLeftOut = `
## What smg exports and this router does not

`
