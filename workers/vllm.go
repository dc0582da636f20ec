package workers

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"
)

// identifyVLLM is the identifier of vLLM engines. Which connector an engine
// was started with shows in nothing but the names of its metrics; which role
// it has shows nowhere, because the router decides that.
func identifyVLLM(ctx context.Context, w *Worker) (*Facts, error) {
	var version struct {
		Version string `json:"version"`
	}
	if err := askJSON(ctx, w, "/version", &version); err != nil {
		return nil, err
	}
	page, err := ask(ctx, w, "/metrics")
	if err != nil && !errors.Is(err, errNotServed) {
		return nil, err
	}
	if err == nil && !bytes.Contains(page, []byte("vllm:")) {
		return nil, &MetricsOffError{vllmRemedy}
	}
	if !bytes.Contains(page, []byte("vllm:nixl_")) {
		return nil, errors.New("no vllm:nixl_ metrics in /metrics: the engine runs without NixlConnector; start it with --kv-transfer-config")
	}
	facts := &Facts{Dialect: "vllm-nixl", Version: version.Version}
	facts.Models, err = askModels(ctx, w)
	return facts, err
}

// readVLLM is the reader of vLLM engines. All that they tell is in /metrics.
func readVLLM(ctx context.Context, w *Worker) (Report, error) {
	f := newFigures()
	if err := readMetrics(ctx, w, f, vllmReadings()); err != nil {
		return unknown(), err
	}
	f.At = time.Now()
	if math.IsNaN(f.Running) {
		return f.report(), &MetricsOffError{vllmRemedy}
	}
	return f.report(), nil
}

// vllmRemedy is what to do with a vLLM engine that has no metrics.
const vllmRemedy = "start it without --disable-log-stats"

// vllmReadings is where vLLM's /metrics tells what. Each data-parallel rank is
// an engine of its own there, by the label engine.
func vllmReadings() []reading {
	prompt := func(origin string) []source {
		return []source{{names: []string{"vllm:prompt_tokens_by_source_total"}, label: "source", values: []string{origin}}}
	}
	config := func(number string, over reduction) []source {
		return []source{{names: []string{"vllm:cache_config_info"}, number: number, over: over}}
	}
	return []reading{
		{"process start", func(f *figures) *float64 { return &f.started }, []source{{names: []string{"process_start_time_seconds"}, over: largest}}},
		{"KVCapacity", func(f *figures) *float64 { return &f.KVCapacity }, config("kv_cache_size_tokens", sum)},
		// Each rank tells the blocks of all.
		{"KVCapacity / BlockSize", func(f *figures) *float64 { return &f.blocks }, config("num_gpu_blocks", largest)},
		{"KVUsed / KVCapacity", func(f *figures) *float64 { return &f.usage }, []source{
			{names: []string{"vllm:kv_cache_usage_perc"}, over: mean},
			{names: []string{"vllm:gpu_cache_usage_perc"}, over: mean},
		}},
		{"BlockSize", func(f *figures) *float64 { return &f.BlockSize }, config("block_size", largest)},
		{"KVCapacity / MaxContext", func(f *figures) *float64 { return &f.full }, config("kv_cache_max_concurrency", sum)},
		{"Running", func(f *figures) *float64 { return &f.Running }, named("vllm:num_requests_running")},
		{"Waiting", func(f *figures) *float64 { return &f.Waiting }, named("vllm:num_requests_waiting")},
		{"TransferQueue", func(f *figures) *float64 { return &f.TransferQueue }, []source{
			{names: []string{"vllm:num_requests_kv_fetch_by_stage"}, label: "stage", values: []string{"waiting_to_start", "in_progress"}},
			{names: []string{"vllm:num_requests_waiting_by_reason"}, label: "reason", values: []string{"deferred"}},
		}},
		{"Preempted", func(f *figures) *float64 { return &f.Preempted }, named("vllm:num_preemptions_total")},
		{"CacheHitTokens", func(f *figures) *float64 { return &f.CacheHitTokens }, named("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")},
		{"CacheQueryTokens", func(f *figures) *float64 { return &f.CacheQueryTokens }, named("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")},
		{"PromptTokens", func(f *figures) *float64 { return &f.PromptTokens }, named("vllm:prompt_tokens_total")},
		{"GeneratedTokens", func(f *figures) *float64 { return &f.GeneratedTokens }, named("vllm:generation_tokens_total")},
		{"TransferredIn", func(f *figures) *float64 { return &f.TransferredIn }, prompt("external_kv_transfer")},
		{"ComputedLocally", func(f *figures) *float64 { return &f.ComputedLocally }, prompt("local_compute")},
		{"Transfers", func(f *figures) *float64 { return &f.Transfers }, named("vllm:nixl_xfer_time_seconds_count")},
		{"TransferSeconds", func(f *figures) *float64 { return &f.TransferSeconds }, named("vllm:nixl_xfer_time_seconds_sum")},
		{"TransferFailures", func(f *figures) *float64 { return &f.TransferFailures }, named("vllm:nixl_num_failed_transfers_total")},
		{"TransferExpired", func(f *figures) *float64 { return &f.TransferExpired }, named("vllm:nixl_num_kv_expired_reqs_total")},
		{"TransferBytes", func(f *figures) *float64 { return &f.TransferBytes }, named("vllm:nixl_bytes_transferred_sum")},
		{"ProcessSeconds", func(f *figures) *float64 { return &f.ProcessSeconds }, named("process_cpu_seconds_total")},
	}
}
