package main

import (
	"strings"
	"testing"

	"pdrouter/sim"
)

// The tools' reports, cut down to what is read of them.
func TestReports(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		read       func([]byte) (figures, error)
	}{
		{"aiperf", `{"request_count":{"avg":35.0},"error_request_count":{"avg":1.0},"time_to_first_token":{"avg":9,"p50":65.5},"inter_token_latency":{"p50":10.25}}`, readAIPerf},
		{"guidellm", `{"benchmarks":[{"metrics":{"request_totals":{"successful":35,"errored":1,"incomplete":2},
			"time_to_first_token_ms":{"successful":{"median":65.5}},"inter_token_latency_ms":{"successful":{"median":10.25}}}}]}`, readGuideLLM},
		{"inference-perf", `{"successes":{"count":35,"latency":{"time_to_first_token":{"median":0.0655},"time_per_output_token":{"median":0.01025}}},
			"failures":{"count":1}}`, readInferencePerf},
	} {
		got, err := tt.read([]byte(tt.text))
		if want := (figures{35, 1, 65.5, 10.25}); err != nil || got != want {
			t.Errorf("%s: read %+v, %v, want %+v", tt.name, got, err, want)
		}
		if _, err := tt.read([]byte("{")); err == nil {
			t.Errorf("%s: a report that is cut short is read", tt.name)
		}
	}
}

func TestJudge(t *testing.T) {
	told := tell(sim.SGLang, 10, 90) // 180 ms and one token of 20 ms
	if more := tell(sim.VLLMNixl, 10, 90).ttft - told.ttft; more != 20 {
		t.Errorf("where prefill goes first, TTFT is %v ms longer, want one token", more)
	}
	for _, tt := range []struct {
		name string
		figures
		want string
	}{
		{"near enough", figures{10, 0, 245, 16}, ""},
		{"an error", figures{10, 1, 200, 20}, "1 errors"},
		{"nothing sent", figures{}, "0 requests"},
		{"a slow first token", figures{10, 0, 260, 20}, "TTFT"},
		{"too quick between tokens", figures{10, 0, 200, 10}, "ITL"},
	} {
		err := tt.judge(told)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
