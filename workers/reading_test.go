package workers

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestUnknownTellsNothing is I8: what an engine does not tell is NaN, whatever
// is added to a Report.
func TestUnknownTellsNothing(t *testing.T) {
	if got := told(unknown()); got != "" {
		t.Errorf("unknown() tells %s", got)
	}
	if got := told(newFigures().report()); got != "" {
		t.Errorf("figures without a page tell %s", got)
	}
}

// told returns the numbers that are in a report.
func told(r Report) string {
	var b strings.Builder
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		if n, ok := reflect.TypeAssert[float64](v.Field(i)); ok && !math.IsNaN(n) {
			fmt.Fprintf(&b, "%s %.10g\n", v.Type().Field(i).Name, n)
		}
	}
	if !r.Started.IsZero() {
		fmt.Fprintf(&b, "Started %s\n", r.Started.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// TestReadingsGoWhereTheySay keeps the tables, and the page that is made from
// them, true.
func TestReadingsGoWhereTheySay(t *testing.T) {
	check := func(field string, into func(*figures) *float64) {
		t.Helper()
		f := newFigures()
		*into(f) = 7
		if got := told(f.Report); got != field+" 7\n" && reflect.ValueOf(f.Report).FieldByName(field).IsValid() {
			t.Errorf("what is read as %s is told as %q", field, got)
		}
	}
	for _, r := range append(sglangReadings(), vllmReadings()...) {
		check(r.field, r.into)
	}
	for _, r := range loadReadings() {
		check(r.field, r.into)
	}
}

// TestReadRealPages reads what real engines sent.
func TestReadRealPages(t *testing.T) {
	tests := []struct {
		page  string
		table []reading
		want  string
	}{
		{"sglang/metrics.prefill.txt", sglangReadings(), `
KVCapacity 8192
KVUsed 0
KVEvictable 101
BlockSize 1
MaxContext 2048
Running 0
Waiting 0
TransferQueue 0
CacheHitTokens 970
CacheQueryTokens 1109
PromptTokens 1478
GeneratedTokens 38
ComputedLocally 139
Transfers 38
TransferSeconds 5.416954253
TransferFailures 8
TransferBytes 25528320
ProcessSeconds 2.85
`},
		{"sglang/metrics.decode.txt", sglangReadings(), `
KVCapacity 8192
KVUsed 0
KVEvictable 0
BlockSize 1
MaxContext 2048
Running 0
Waiting 0
TransferQueue 0
CacheHitTokens 0
CacheQueryTokens 0
PromptTokens 1620
GeneratedTokens 651
ComputedLocally 0
TransferFailures 19
ProcessSeconds 5.27
`},
		{"vllm/metrics.prefill.txt", vllmReadings(), `
KVCapacity 23264
KVUsed 0
BlockSize 32
MaxContext 2048
Running 0
Waiting 0
TransferQueue 0
Preempted 0
CacheHitTokens 256
CacheQueryTokens 2809
PromptTokens 2809
GeneratedTokens 64
TransferredIn 0
ComputedLocally 2553
Transfers 0
TransferSeconds 0
TransferFailures 0
TransferExpired 6
TransferBytes 0
ProcessSeconds 28.54
Started 2026-11-30T11:57:58Z
`},
		{"vllm/metrics.decode.txt", vllmReadings(), `
KVCapacity 23264
KVUsed 0
BlockSize 32
MaxContext 2048
Running 0
Waiting 0
TransferQueue 0
Preempted 0
CacheHitTokens 32
CacheQueryTokens 2432
PromptTokens 2209
GeneratedTokens 168
TransferredIn 1954
ComputedLocally 223
Transfers 20
TransferSeconds 1.151566
TransferFailures 2
TransferExpired 0
TransferBytes 103219200
ProcessSeconds 22.29
Started 2026-11-30T11:57:58Z
`},
	}
	for _, tt := range tests {
		t.Run(tt.page, func(t *testing.T) {
			page, err := os.Open("../sim/testdata/captures/" + tt.page)
			if err != nil {
				t.Fatal(err)
			}
			defer page.Close()
			f := newFigures()

			err = f.read(page, tt.table)

			if got := "\n" + told(f.report()); err != nil || got != tt.want {
				t.Errorf("read = %v, %s, want %s", err, got, tt.want)
			}
		})
	}
}

// TestReadOtherPages reads pages made up after sources of engines that did not
// run here: older ones, and some of several ranks.
func TestReadOtherPages(t *testing.T) {
	tests := []struct {
		name  string
		table []reading
		page  string
		want  string
	}{
		{"SGLang 0.5 before its counters by source", sglangReadings(), `
sglang:num_running_reqs{tp_rank="0"} 3.0
sglang:num_queue_reqs{tp_rank="0"} 2.0
sglang:num_used_tokens{tp_rank="0"} 500.0
sglang:token_usage{tp_rank="0"} 0.9
sglang:max_total_num_tokens{tp_rank="0"} 1000.0
sglang:realtime_tokens_total{mode="prefill_compute",tp_rank="0"} 10.0
sglang:realtime_tokens_total{mode="prefill_cache",tp_rank="0"} 30.0
sglang:realtime_tokens_total{mode="decode",tp_rank="0"} 5.0
sglang:num_prefill_prealloc_queue_reqs{tp_rank="0"} 1.0
sglang:num_prefill_inflight_queue_reqs{tp_rank="0"} 4.0
sglang:kv_transfer_latency_ms{tp_rank="0"} 12.5
sglang:num_retracted_reqs{pid="1",tp_rank="0"} 9.0
`, `
KVCapacity 1000
KVUsed 500
Running 3
Waiting 3
TransferQueue 5
CacheHitTokens 30
CacheQueryTokens 40
GeneratedTokens 5
ComputedLocally 10
`},
		{"an SGLang that tells of its pool by a share only", sglangReadings(), `
sglang:token_usage{dp_rank="0"} 0.25
sglang:token_usage{dp_rank="1"} 0.75
sglang:max_total_num_tokens{dp_rank="0"} 1000
sglang:max_total_num_tokens{dp_rank="1"} 1000
sglang:total_retracted_reqs{dp_rank="0"} 4
`, `
KVCapacity 2000
KVUsed 1000
Preempted 4
`},
		{"SGLang with data-parallel attention, and metrics of all schedulers", sglangReadings(), `
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 3
sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 4
sglang:num_running_reqs{dp_rank="1",tp_rank="3"} 4
sglang:page_size{dp_rank="0",tp_rank="0"} 64
sglang:page_size{dp_rank="1",tp_rank="2"} 64
`, `
BlockSize 64
Running 7
`},
		{"vLLM of several ranks, where each tells the blocks of all", vllmReadings(), `
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="200"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="200"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.0
vllm:num_requests_running{engine="0"} 2
vllm:num_requests_running{engine="1"} 1
`, `
KVCapacity 3184
KVUsed 796
BlockSize 16
Running 3
`},
		{"newer vLLM, where each tells its own tokens too", vllmReadings(), `
vllm:cache_config_info{block_size="16",engine="0",kv_cache_max_concurrency="2.5",kv_cache_size_tokens="1500",num_gpu_blocks="200"} 1.0
vllm:cache_config_info{block_size="16",engine="1",kv_cache_max_concurrency="2.5",kv_cache_size_tokens="1500",num_gpu_blocks="200"} 1.0
vllm:num_requests_running{engine="0"} 2
`, `
KVCapacity 2984
BlockSize 16
MaxContext 600
Running 2
`},
		{"vLLM that has a name's older form too", vllmReadings(), `
vllm:gpu_prefix_cache_hits_total{model_name="m"} 5
vllm:prefix_cache_hits_total{model_name="m"} 80
`, `
CacheHitTokens 80
`},
		{"older vLLM", vllmReadings(), `
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0
vllm:gpu_prefix_cache_hits_total{model_name="m"} 5
vllm:gpu_prefix_cache_queries_total{model_name="m"} 9
vllm:num_requests_waiting_by_reason{reason="capacity"} 1
vllm:num_requests_waiting_by_reason{reason="deferred"} 2
`, `
KVCapacity 1584
KVUsed 792
BlockSize 16
TransferQueue 2
CacheHitTokens 5
CacheQueryTokens 9
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFigures()
			err := f.read(strings.NewReader(tt.page), tt.table)
			if got := "\n" + told(f.report()); err != nil || got != tt.want {
				t.Errorf("read = %v, %s, want %s", err, got, tt.want)
			}
		})
	}
}
