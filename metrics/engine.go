package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// An Engine is what a worker's engine says of itself, the sum of its
// data-parallel ranks. What it does not tell, or has not told yet, is NaN, never
// 0 (I8). Totals begin at 0 with the engine's process. docs/engine-metrics.md
// says which of the engine's own names each number comes from.
type Engine struct {
	Lost bool // it is not known any more whether it still is as it said; its totals stay what they were

	Running       float64 // requests being computed
	Waiting       float64 // requests that wait for it, or for their KV
	TransferQueue float64 // requests whose hand-off waits or is under way
	Evictable     float64 // tokens of KV that are kept in case they are asked for again
	Usage         float64 // tokens of KV in use, as a share of what there are

	Preempted        float64 // total of requests thrown out again
	PromptTokens     float64 // total
	GeneratedTokens  float64 // total
	TransferredIn    float64 // total of prompt tokens whose KV came from another engine
	Computed         float64 // total of prompt tokens that were computed there
	Transfers        float64 // total of hand-offs, on the side that counts them
	TransferSeconds  float64 // total time of these
	TransferFailures float64 // total
	TransfersExpired float64 // total of hand-offs that decode did not fetch in time
	CacheHits        float64 // total of prompt tokens found in the prefix cache
	CacheQueries     float64 // total of prompt tokens looked up in it

	// Between its last two reports:

	Generating  float64 // tokens generated per second
	HandOff     float64 // seconds that one hand-off took
	Transferred float64 // bytes per second of hand-offs
}

// UnknownEngine returns the Engine that has told nothing.
func UnknownEngine() Engine {
	nan := math.NaN()
	return Engine{
		Running: nan, Waiting: nan, TransferQueue: nan, Evictable: nan, Usage: nan,
		Preempted: nan, PromptTokens: nan, GeneratedTokens: nan, TransferredIn: nan, Computed: nan,
		Transfers: nan, TransferSeconds: nan, TransferFailures: nan, TransfersExpired: nan, CacheHits: nan, CacheQueries: nan,
		Generating: nan, HandOff: nan, Transferred: nan,
	}
}

// engineGroups returns our families.
func engineGroups() []group {
	all := group{labels: []string{"worker", "role"}, values: byWorkerRole}
	now := func(name, help string, value func(e *Engine) float64) {
		all.families = append(all.families, family{
			name: "pdrouter_worker_" + name, help: help, kind: prometheus.GaugeValue,
			value: func(w *WorkerState) float64 { return unknownIf(w.Engine.Lost, value(&w.Engine)) },
		})
	}
	total := func(name, help string, value func(e *Engine) float64) {
		all.families = append(all.families, family{
			name: "pdrouter_worker_" + name, help: help + " As the engine counts, from 0 with its process.", kind: prometheus.CounterValue,
			value: func(w *WorkerState) float64 { return value(&w.Engine) },
		})
	}
	now("engine_running_requests", "Requests that the engine computes.", func(e *Engine) float64 { return e.Running })
	now("engine_waiting_requests", "Requests that wait in the engine, for their turn or for their KV.", func(e *Engine) float64 { return e.Waiting })
	now("engine_transfer_queue_requests", "Requests whose hand-off waits or is under way.", func(e *Engine) float64 { return e.TransferQueue })
	now("kv_evictable_tokens", "Tokens of KV that the engine keeps only in case they are asked for again.", func(e *Engine) float64 { return e.Evictable })
	total("engine_preempted_requests_total", "Requests that the engine threw out again for lack of KV (vLLM: preempted, SGLang: retracted).", func(e *Engine) float64 { return e.Preempted })
	total("engine_prompt_tokens_total", "Tokens of prompts.", func(e *Engine) float64 { return e.PromptTokens })
	total("engine_generated_tokens_total", "Tokens generated.", func(e *Engine) float64 { return e.GeneratedTokens })
	total("engine_transferred_in_tokens_total", "Prompt tokens whose KV came from another engine.", func(e *Engine) float64 { return e.TransferredIn })
	total("engine_computed_tokens_total", "Prompt tokens that were computed there.", func(e *Engine) float64 { return e.Computed })
	total("engine_transfers_total", "Hand-offs done, told by the side that counts them (SGLang: prefill, vLLM: decode).", func(e *Engine) float64 { return e.Transfers })
	total("engine_transfer_seconds_total", "Time that these took.", func(e *Engine) float64 { return e.TransferSeconds })
	total("engine_transfer_failures_total", "Hand-offs that failed.", func(e *Engine) float64 { return e.TransferFailures })
	total("engine_transfers_expired_total", "Hand-offs that decode did not fetch in time.", func(e *Engine) float64 { return e.TransfersExpired })
	total("prefix_cache_hits_total", "Prompt tokens that the engine found in its prefix cache.", func(e *Engine) float64 { return e.CacheHits })
	total("prefix_cache_queries_total", "Prompt tokens that the engine looked up in its prefix cache.", func(e *Engine) float64 { return e.CacheQueries })
	return []group{all, {[]string{"worker"}, ofDecode, []family{{
		name:  "pdrouter_worker_recomputed_tokens_total",
		help:  "Prompt tokens that a decode worker computed though they should have come over, and those of requests that others sent straight to it (I10). As the engine counts, from 0 with its process.",
		kind:  prometheus.CounterValue,
		value: func(w *WorkerState) float64 { return w.Engine.Computed },
	}}}}
}
