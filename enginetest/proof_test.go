package enginetest

import (
	"fmt"
	"testing"
	"time"
)

// A moved is what engines say of KV that went from one to the other, and what
// the router says of hand-offs.
type moved struct {
	handoffs, transfers float64 // by the router, by the engines
	came, had, computed float64 // tokens on decode: pulled, in its own cache, computed
	megabytes           float64
	failed, recomputed  float64
}

// moved asks all three. How many tokens came over tells vLLM; SGLang tells of
// bytes, on prefill, and its decode engines compute no prompts at all.
func (p *pair) moved() (m moved, err error) {
	ours, err := scrape(p.metrics)
	if err != nil {
		return m, err
	}
	prefill, err := scrape(p.prefill.url + "/metrics")
	if err != nil {
		return m, err
	}
	decode, err := scrape(p.decode.url + "/metrics")
	m.handoffs = ours.sum("pdrouter_handoffs_total", `outcome="done"`)
	m.recomputed = ours.sum("pdrouter_worker_recomputed_tokens_total")
	if p.dialect == "vllm" {
		const source = "vllm:prompt_tokens_by_source_total"
		m.transfers = decode.sum("vllm:nixl_xfer_time_seconds_count")
		m.came = decode.sum(source, `source="external_kv_transfer"`)
		m.had = decode.sum(source, `source="local_cache_hit"`)
		m.computed = decode.sum(source, `source="local_compute"`)
		m.megabytes = decode.sum("vllm:nixl_bytes_transferred_sum") / 1e6
		m.failed = decode.sum("vllm:nixl_num_failed_transfers_total")
	} else {
		m.transfers = prefill.sum("sglang:kv_transfer_latency_ms_count")
		m.megabytes = prefill.sum("sglang:kv_transfer_total_mb_sum") * 1.048576
		m.computed = decode.sum("sglang:prefill_effective_tokens_total", `mode="input"`)
		m.failed = prefill.sum("sglang:num_bootstrap_failed_reqs_total") + decode.sum("sglang:num_transfer_failed_reqs_total")
	}
	return m, err
}

// proof takes the engines' word for it that KV came over, request by request.
func (s *suite) proof() {
	s.step("each hand-off is one of the engines', with all its KV", func(t *testing.T) string {
		const requests = 8
		first := s.settled(t)
		before, tokens := first, 0.0
		for i := range requests {
			a := say(t, s.ask(completions, completion(story(1000+i, 60+90*i), 2)))
			tokens += float64(a.prompt)
			eventually(t, 20*time.Second, func() error {
				now, err := s.moved()
				if err != nil {
					return err
				}
				if err := s.grew(before, now, float64(a.prompt)); err != nil {
					return fmt.Errorf("prompt of %d tokens: %w", a.prompt, err)
				}
				before = now
				return nil
			})
		}
		d := before.megabytes - first.megabytes
		return fmt.Sprintf("%d hand-offs, %v tokens, %.1f MB (%.1f KB each token), computed on decode: %v", requests, tokens, d, d*1e3/tokens, before.computed-first.computed)
	})
}

// settled waits until nothing moves any more.
func (s *suite) settled(t *testing.T) (m moved) {
	t.Helper()
	since := time.Now()
	eventually(t, 40*time.Second, func() error {
		now, err := s.moved()
		if err != nil || now != m {
			m, since = now, time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return fmt.Errorf("it moves: %+v: %w", m, err)
		}
		return nil
	})
	return m
}

// grew reports what is not as one hand-off of a prompt makes it.
func (s *suite) grew(before, now moved, prompt float64) error {
	switch {
	case now.handoffs-before.handoffs != 1:
		return fmt.Errorf("the router counts %v hand-offs", now.handoffs-before.handoffs)
	case now.transfers-before.transfers != 1:
		return fmt.Errorf("the engines count %v transfers", now.transfers-before.transfers)
	case now.computed != before.computed || now.recomputed != before.recomputed || now.failed != before.failed:
		return fmt.Errorf("decode computed %v tokens, the router counts %v recomputed; %v transfers failed",
			now.computed-before.computed, now.recomputed-before.recomputed, now.failed-before.failed)
	case now.megabytes <= before.megabytes:
		return fmt.Errorf("%v MB came over", now.megabytes-before.megabytes)
	case s.dialect == "vllm" && now.came-before.came+now.had-before.had != prompt:
		return fmt.Errorf("%v tokens came over and %v were there, of %v", now.came-before.came, now.had-before.had, prompt)
	}
	return nil
}
