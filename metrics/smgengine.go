package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// wholeEngine is the label dp_rank of what is the sum of all ranks.
const wholeEngine = "0"

// smgEngineGroups returns smg's families of what engines say of themselves. smg
// has one series for each data-parallel rank; here they are told as one.
func smgEngineGroups(models *modelNames) []group {
	served := func(w *WorkerState) []string {
		if len(w.Models) == 0 {
			return nil
		}
		return []string{w.URL, models.label(w.Models[0]), wholeEngine}
	}
	handOff := func(role string) func(w *WorkerState) []string {
		return func(w *WorkerState) []string {
			if role != "" && w.Role != role {
				return nil
			}
			return []string{w.URL, w.Role, wholeEngine}
		}
	}
	now := func(name, help string, value func(e *Engine) float64) family {
		return family{
			name: "smg_engine_" + name, help: help, kind: prometheus.GaugeValue,
			value: func(w *WorkerState) float64 { return unknownIf(w.Engine.Lost, value(&w.Engine)) },
		}
	}
	ofWorker, ofHandOff := []string{"worker", "model", "dp_rank"}, []string{"worker", "role", "dp_rank"}
	return []group{
		{ofWorker, served, []family{
			now("running_requests", "Requests that the engine computes, all ranks together.", func(e *Engine) float64 { return e.Running }),
			now("waiting_requests", "Requests that wait in the engine, all ranks together.", func(e *Engine) float64 { return e.Waiting }),
			now("token_usage", "Tokens of KV in use as the engine said last, as a share of what there are.", func(e *Engine) float64 { return e.Usage }),
			now("gen_throughput", "Tokens generated per second between the engine's last two reports.", func(e *Engine) float64 { return e.Generating }),
			now("cache_hit_rate", "Prompt tokens found in the prefix cache as a share of those looked up, since the engine was started.", func(e *Engine) float64 { return ratio(e.CacheHits, e.CacheQueries) }),
		}},
		{ofHandOff, handOff(""), []family{
			now("pd_kv_transfer_latency_ms", "Milliseconds that a hand-off took, on average between the engine's last two reports.", func(e *Engine) float64 { return e.HandOff * 1e3 }),
			now("pd_kv_transfer_speed_gb_s", "Gigabytes per second of hand-offs between the engine's last two reports.", func(e *Engine) float64 { return e.Transferred / 1e9 }),
		}},
		{ofHandOff, handOff("prefill"), []family{
			now("pd_prefill_queue_reqs", "Requests on a prefill worker whose hand-off waits or is under way.", func(e *Engine) float64 { return e.TransferQueue }),
		}},
		{ofHandOff, handOff("decode"), []family{
			now("pd_decode_queue_reqs", "Requests on a decode worker whose hand-off waits or is under way.", func(e *Engine) float64 { return e.TransferQueue }),
		}},
	}
}
