package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"pdrouter/sim"
)

// tolerance is how far a median may be from what was told, as a share of it.
const tolerance = 0.25

// figures are what is looked at of a report.
type figures struct {
	requests, errors int
	ttft, itl        float64 // medians, in milliseconds
}

// tell returns what should be measured with so many prompts of so many tokens:
// the first token is generated as the others are. Where prefill goes first, it
// generates one before decode begins.
func tell(dialect string, requests int, tokens float64) figures {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	ttft := tokens*ms(prefillPerToken) + ms(decodePerToken)
	if dialect == sim.VLLMNixl {
		ttft += ms(decodePerToken)
	}
	return figures{requests: requests, ttft: ttft, itl: ms(decodePerToken)}
}

// judge reports what is wrong with a report, if told is right.
func (f figures) judge(told figures) error {
	var faults []error
	if f.requests == 0 || f.errors > 0 {
		faults = append(faults, fmt.Errorf("%d requests and %d errors", f.requests, f.errors))
	}
	near := func(what string, got, want float64) {
		if !(math.Abs(got-want) <= tolerance*want) {
			faults = append(faults, fmt.Errorf("%s %.1f ms, want %.1f ms within %.0f %%", what, got, want, 100*tolerance))
		}
	}
	near("TTFT", f.ttft, told.ttft)
	near("ITL", f.itl, told.itl)
	return errors.Join(faults...)
}

// readAIPerf reads profile_export_aiperf.json.
func readAIPerf(text []byte) (figures, error) {
	type stat struct{ Avg, P50 float64 }
	var r struct {
		Requests stat `json:"request_count"`
		Errors   stat `json:"error_request_count"`
		TTFT     stat `json:"time_to_first_token"`
		ITL      stat `json:"inter_token_latency"`
	}
	err := json.Unmarshal(text, &r)
	return figures{int(r.Requests.Avg), int(r.Errors.Avg), r.TTFT.P50, r.ITL.P50}, err
}

// readGuideLLM reads guidellm's JSON. What was under way at the end is neither
// well nor ill.
func readGuideLLM(text []byte) (figures, error) {
	type stat struct{ Successful struct{ Median float64 } }
	var r struct {
		Benchmarks []struct {
			Metrics struct {
				Totals struct{ Successful, Errored int } `json:"request_totals"`
				TTFT   stat                              `json:"time_to_first_token_ms"`
				ITL    stat                              `json:"inter_token_latency_ms"`
			}
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return figures{}, err
	}
	if len(r.Benchmarks) != 1 {
		return figures{}, fmt.Errorf("%d benchmarks in the report, want 1", len(r.Benchmarks))
	}
	m := r.Benchmarks[0].Metrics
	return figures{m.Totals.Successful, m.Totals.Errored, m.TTFT.Successful.Median, m.ITL.Successful.Median}, nil
}

// readInferencePerf reads summary_lifecycle_metrics.json, whose times are
// seconds. Its inter_token_latency counts tokens by its own tokenizer;
// time_per_output_token is what the others call ITL.
func readInferencePerf(text []byte) (figures, error) {
	type stat struct{ Median float64 }
	var r struct {
		Successes struct {
			Count   int
			Latency struct {
				TTFT stat `json:"time_to_first_token"`
				ITL  stat `json:"time_per_output_token"`
			}
		}
		Failures struct{ Count int }
	}
	err := json.Unmarshal(text, &r)
	l := r.Successes.Latency
	return figures{r.Successes.Count, r.Failures.Count, 1000 * l.TTFT.Median, 1000 * l.ITL.Median}, err
}
