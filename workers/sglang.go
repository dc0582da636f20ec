package workers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sglangInfo is the part of SGLang's /server_info that matters here. The page
// has some 300 keys; captures of it are in the tests of package sim.
type sglangInfo struct {
	Mode          *string `json:"disaggregation_mode"`
	BootstrapPort int     `json:"disaggregation_bootstrap_port"`
	Host          string  `json:"host"`
	PageSize      int     `json:"page_size"`
	KVDtype       string  `json:"kv_cache_dtype"`
	Version       string  `json:"version"`

	KVEvents *sglangKVEvents `json:"kv_events"`
}

// identifySGLang is the identifier of SGLang engines.
func identifySGLang(ctx context.Context, w *Worker) (*Facts, error) {
	var info sglangInfo
	err := askJSON(ctx, w, "/server_info", &info)
	if errors.Is(err, errNotServed) {
		err = askJSON(ctx, w, "/get_server_info", &info) // before SGLang 0.5
	}
	if err != nil {
		return nil, err
	}
	if info.Mode == nil {
		return nil, errNotServed // some other engine's page of that name
	}
	if *info.Mode != w.Role.String() {
		return nil, fmt.Errorf("configured for %s, but the engine runs with --disaggregation-mode %s", w.Role, *info.Mode)
	}
	facts := &Facts{
		Dialect:       "sglang",
		Version:       info.Version,
		BootstrapHost: info.Host,
		BootstrapPort: info.BootstrapPort,
		PageSize:      info.PageSize,
		KVDtype:       info.KVDtype,
		KVEvents:      info.KVEvents.endpoints(w),
	}
	facts.Models, err = askModels(ctx, w)
	return facts, err
}

// readSGLang is the reader of SGLang engines. /v1/loads tells the moment;
// /metrics, which lags by seconds, all that is not there.
func readSGLang(ctx context.Context, w *Worker) (Report, error) {
	f := newFigures()
	off := readMetrics(ctx, w, f, sglangReadings())
	if errors.Is(off, errNotServed) {
		off = &MetricsOffError{"start it with --enable-metrics"}
		var info sglangCapacity
		if err := askJSON(ctx, w, "/server_info", &info); err != nil && !errors.Is(err, errNotServed) {
			return unknown(), err
		}
		info.fill(f)
	} else if off != nil {
		return unknown(), off
	}
	var page sglangLoads
	err := askJSON(ctx, w, "/v1/loads?include=core,disagg,queues", &page)
	if err != nil && !errors.Is(err, errNotServed) { // older engines do not have it
		return unknown(), err
	}
	f.At = time.Now()
	page.fill(f)
	return f.report(), off
}

// sglangReadings is where SGLang's /metrics tells what. What /v1/loads tells
// too is taken from there.
func sglangReadings() []reading {
	tokens := func(mode string, modes ...string) source {
		return source{names: []string{"sglang:" + mode + "_tokens_total"}, label: "mode", values: modes}
	}
	return []reading{
		{"KVCapacity", func(f *figures) *float64 { return &f.KVCapacity }, named("sglang:max_total_num_tokens")},
		{"KVUsed", func(f *figures) *float64 { return &f.KVUsed }, named("sglang:kv_used_tokens", "sglang:num_used_tokens")},
		{"KVUsed / KVCapacity", func(f *figures) *float64 { return &f.usage }, []source{
			{names: []string{"sglang:full_token_usage"}, over: mean},
			{names: []string{"sglang:token_usage"}, over: mean},
		}},
		{"KVEvictable", func(f *figures) *float64 { return &f.KVEvictable }, named("sglang:kv_evictable_tokens")},
		{"BlockSize", func(f *figures) *float64 { return &f.BlockSize }, []source{{names: []string{"sglang:page_size"}, over: largest}}},
		{"MaxContext", func(f *figures) *float64 { return &f.MaxContext }, []source{{names: []string{"sglang:context_len"}, over: largest}}},
		{"Running", func(f *figures) *float64 { return &f.Running }, named("sglang:num_running_reqs")},
		{"Waiting", func(f *figures) *float64 { return &f.Waiting }, []source{{names: []string{
			"sglang:num_queue_reqs", "sglang:num_prefill_bootstrap_queue_reqs", "sglang:num_prefill_prealloc_queue_reqs",
			"sglang:num_decode_prealloc_queue_reqs", "sglang:num_decode_transfer_queue_reqs",
		}}}},
		{"TransferQueue", func(f *figures) *float64 { return &f.TransferQueue }, []source{{names: []string{
			"sglang:num_prefill_bootstrap_queue_reqs", "sglang:num_prefill_prealloc_queue_reqs", "sglang:num_prefill_inflight_queue_reqs",
			"sglang:num_decode_prealloc_queue_reqs", "sglang:num_decode_transfer_queue_reqs",
		}}}},
		{"Preempted", func(f *figures) *float64 { return &f.Preempted }, named("sglang:num_retracted_requests_total", "sglang:total_retracted_reqs")},
		{"CacheHitTokens", func(f *figures) *float64 { return &f.CacheHitTokens }, []source{
			tokens("prefill_effective", "device_hit", "host_hit", "storage_hit"), tokens("realtime", "prefill_cache"),
		}},
		{"CacheQueryTokens", func(f *figures) *float64 { return &f.CacheQueryTokens }, []source{
			tokens("prefill_effective", "input", "device_hit", "host_hit", "storage_hit"), tokens("realtime", "prefill_compute", "prefill_cache"),
		}},
		{"PromptTokens", func(f *figures) *float64 { return &f.PromptTokens }, named("sglang:prompt_tokens_total")},
		// Tokens of an answer under way count in the first one only.
		{"GeneratedTokens", func(f *figures) *float64 { return &f.GeneratedTokens }, []source{
			tokens("realtime", "decode"), {names: []string{"sglang:generation_tokens_total"}},
		}},
		{"ComputedLocally", func(f *figures) *float64 { return &f.ComputedLocally }, []source{
			tokens("prefill_effective", "input"), tokens("realtime", "prefill_compute"),
		}},
		{"Transfers", func(f *figures) *float64 { return &f.Transfers }, named("sglang:kv_transfer_latency_ms_count")},
		{"TransferSeconds", func(f *figures) *float64 { return &f.TransferSeconds }, []source{
			{names: []string{"sglang:kv_transfer_latency_ms_sum"}, times: 1e-3},
		}},
		{"TransferFailures", func(f *figures) *float64 { return &f.TransferFailures }, []source{
			{names: []string{"sglang:num_bootstrap_failed_reqs_total", "sglang:num_transfer_failed_reqs_total"}},
		}},
		{"TransferBytes", func(f *figures) *float64 { return &f.TransferBytes }, []source{
			{names: []string{"sglang:kv_transfer_total_mb_sum"}, times: 1 << 20},
		}},
		{"ProcessSeconds", func(f *figures) *float64 { return &f.ProcessSeconds }, named("sglang:process_cpu_seconds_total")},
	}
}
