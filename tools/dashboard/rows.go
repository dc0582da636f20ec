package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

func rows() []row {
	return []row{kvRow(), requestRow(), waitingRow(), prefixRow(), handOffRow(), failureRow(), engineRow(), routerRow()}
}

// fullness are the colors of a KV cache, with the thresholds of the alerts.
func fullness() []threshold { return []threshold{{0.85, "orange"}, {0.95, "red"}} }

// both asks for decode workers before prefill workers.
func both(expr func(role string) string) []ask {
	return []ask{{expr("decode"), "decode {{worker}}"}, {expr("prefill"), "prefill {{worker}}"}}
}

// kvRow answers the operator's first question: how full is the KV cache, how
// fast does it fill, when is it full, and how old is what is said.
func kvRow() row {
	of := func(family string) func(string) string {
		return func(role string) string { return family + `{@worker,role="` + role + `"}` }
	}
	return row{"How full is the KV cache, how fast does it fill, when is it full?", []panel{
		bars(look{
			title: "KV cache in use, now", unit: units.PercentUnit, width: 6, most: 1, steps: fullness(),
			about: "Tokens of the KV cache in use, as a share of its capacity: what the engine said last, and what it was sent and has ended since. Blocks that are only cached for reuse do not count.",
		}, both(of("pdrouter_worker_kv_usage_ratio"))...),
		lines(look{
			title: "KV cache in use", unit: units.PercentUnit, width: 6, most: 1, steps: fullness(),
			about: "The same over time. The lines are where the alerts are: 85 % and 95 %.",
		}, both(of("pdrouter_worker_kv_usage_ratio"))...),
		lines(look{
			title: "How fast it fills, tokens per second", unit: units.Short, width: 5,
			about: "How fast the KV cache in use has grown in the last minute; below zero it empties and nothing is drawn.",
		}, both(func(role string) string {
			return `clamp_min(deriv(pdrouter_worker_kv_used_tokens{@worker,role="` + role + `"}[1m]), 0)`
		})...),
		numbers(look{
			title: "Full in", unit: units.DurationSeconds, width: 4, steps: []threshold{{0, "red"}, {60, "orange"}, {300, "green"}},
			about: "Time until it is full if it goes on like this.",
		}, from(86400, "does not fill", "green"), both(of("pdrouter_worker_kv_seconds_to_full"))[:1]...),
		numbers(look{
			title: "Age of the figure", unit: units.Seconds, width: 3, steps: []threshold{{5, "orange"}, {15, "red"}},
			about: "Seconds since the engine's last report. What is not known has never been told: see PdrouterReportsStale in docs/alerts.md.",
		}, nil, both(of("pdrouter_worker_kv_report_age_seconds"))...),
	}}
}

// quantiles asks for the middle of a histogram and what few are beyond.
func quantiles(family string) []ask {
	of := func(q string) string {
		return `histogram_quantile(` + q + `, sum by (le) (rate(` + family + `_bucket{@model}[$r])))`
	}
	return []ask{{of("0.5"), "p50"}, {of("0.95"), "p95"}, {of("0.99"), "p99"}}
}

func requestRow() row {
	return row{"What happens to requests", []panel{
		lines(look{title: "Requests", unit: units.RequestsPerSecond, width: 6, about: "Requests for a model that came, by endpoint."},
			ask{`sum by (endpoint) (rate(smg_router_requests_total{@model}[$r]))`, "{{endpoint}}"}),
		lines(look{title: "Answers by status", unit: units.RequestsPerSecond, width: 6, about: "Answers whose head was sent, of all routes."},
			ask{`sum by (status_code) (rate(smg_http_responses_total{@router}[$r]))`, "{{status_code}}"}),
		lines(look{title: "How answers that had begun ended", unit: units.RequestsPerSecond, width: 6, about: "complete: as the endpoint ends. truncated: the decode worker died, stalled or ended early."},
			ask{`sum by (end) (rate(pdrouter_answer_ends_total{@router}[$r]))`, "{{end}}"}),
		lines(look{title: "Requests under way, and clients that left", unit: units.Short, width: 6, about: "Requests from their head to the end of their answer; departures per second by how far the request had come."},
			ask{`sum(smg_http_connections_active{@router})`, "under way"},
			ask{`sum by (phase) (rate(pdrouter_client_departures_total{@router}[$r]))`, "left {{phase}}"}),
		lines(look{title: "Time to first token", unit: units.Seconds, width: 6, about: "From a request's head to its first event with content; streams only."},
			quantiles("pdrouter_ttft_seconds")...),
		lines(look{title: "Time from token to token", unit: units.Seconds, width: 6, about: "Between the reads that brought tokens; streams only."},
			quantiles("pdrouter_inter_token_seconds")...),
		lines(look{title: "Prefill, hand-off, decode (p95)", unit: units.Seconds, width: 6, about: "Where the time goes: prefill leg sent to its verdict; verdict to decode's first event with content; first event to the last."},
			quantiles("pdrouter_prefill_seconds")[1].named("prefill"),
			quantiles("pdrouter_handoff_wait_seconds")[1].named("hand-off"),
			quantiles("pdrouter_decode_seconds")[1].named("decode")),
		lines(look{title: "Too late, by what was promised", unit: units.PercentUnit, width: 6, about: "The part of first tokens, and of gaps between tokens, that missed the objective in the last 5 minutes and hour. Needs the recording rules."},
			ask{`pdrouter:ttft_late:ratio_rate5m{model=~"$model"}`, "first token {{model}}, 5 min"},
			ask{`pdrouter:ttft_late:ratio_rate1h{model=~"$model"}`, "first token {{model}}, 1 h"},
			ask{`pdrouter:itl_late:ratio_rate5m{model=~"$model"}`, "between tokens {{model}}, 5 min"},
			ask{`pdrouter:itl_late:ratio_rate1h{model=~"$model"}`, "between tokens {{model}}, 1 h"}),
	}}
}

// named returns a under another name.
func (a ask) named(legend string) ask { return ask{a.expr, legend} }

func waitingRow() row {
	return row{"What waits, and what is refused", []panel{
		lines(look{title: "Requests that wait, by what they lack", unit: units.Short, width: 6, about: "docs/admission.md says what each waits for."},
			ask{`sum by (for) (pdrouter_lease_waiting_requests{@router})`, "{{for}}"}),
		lines(look{title: "Requests that wait, by class", unit: units.Short, width: 6},
			ask{`sum by (class) (pdrouter_admission_waiting_requests{@router})`, "{{class}}"}),
		lines(look{title: "Time in line (p95)", unit: units.Seconds, width: 6, about: "Of requests that had to stand in line."},
			ask{`histogram_quantile(0.95, sum by (le, for) (rate(pdrouter_admission_wait_seconds_bucket{@router}[$r])))`, "{{for}}"}),
		lines(look{title: "Refused", unit: units.RequestsPerSecond, width: 6, about: "Too many waited (full), or they had waited too long (timeout)."},
			ask{`sum by (for, reason) (rate(pdrouter_admission_sheds_total{@router}[$r]))`, "{{for}}: {{reason}}"},
			ask{`sum by (reason) (rate(smg_admission_queue_rejected_total{@router}[$r]))`, "all: {{reason}}"}),
	}}
}

func prefixRow() row {
	ratio := func(kind string) string {
		return `sum by (worker) (rate(pdrouter_prefill_hit_tokens_total{@worker,kind="` + kind + `"}[$r])) / sum by (worker) (rate(pdrouter_prefill_prompt_tokens_total{@worker,kind="` + kind + `"}[$r]))`
	}
	return row{"What prefill need not compute", []panel{
		lines(look{title: "Hit ratio, predicted and observed", unit: units.PercentUnit, most: 1, about: "Tokens of prompts that the prefill worker was believed to hold when it was chosen, and that its engine says it had cached. Far apart: the router's idea of the caches is wrong."},
			ask{ratio("predicted"), "predicted {{worker}}"}, ask{ratio("observed"), "observed {{worker}}"}),
		lines(look{title: "Hit ratio, as engines count it", unit: units.PercentUnit, most: 1},
			ask{`(rate(pdrouter_worker_prefix_cache_hits_total{@worker}[$r]) >= 0) / (rate(pdrouter_worker_prefix_cache_queries_total{@worker}[$r]) > 0)`, "{{role}} {{worker}}"}),
		lines(look{title: "Why a worker was chosen", unit: units.RequestsPerSecond, about: "tree_match: nobody was believed to hold more of the prompt; spill: somebody was, and had too much to do; expected_wait_fallback: nobody held any of it."},
			ask{`sum by (branch) (rate(smg_cache_aware_policy_branch_total{@router}[$r]))`, "{{branch}}"}),
	}}
}

func handOffRow() row {
	return row{"Hand-offs from prefill to decode", []panel{
		lines(look{title: "Hand-offs by outcome", unit: units.RequestsPerSecond, width: 6, about: "missing: prefill gave nothing to hand over; failed: a leg failed; left: the client did."},
			ask{`sum by (dialect, outcome) (rate(pdrouter_handoffs_total{@router}[$r]))`, "{{dialect}} {{outcome}}"}),
		lines(look{title: "Transfers of KV", unit: units.OpsPerSecond, width: 6, about: "As engines count them: vLLM on the side of decode, SGLang on that of prefill. Expired: prefill's lease ended before decode came."},
			ask{`rate(pdrouter_worker_engine_transfers_total{@worker}[$r]) >= 0`, "{{role}} {{worker}}"},
			ask{`rate(pdrouter_worker_engine_transfer_failures_total{@worker}[$r]) >= 0`, "failed {{role}} {{worker}}"},
			ask{`rate(pdrouter_worker_engine_transfers_expired_total{@worker}[$r]) >= 0`, "expired {{role}} {{worker}}"}),
		lines(look{title: "Time of a transfer", unit: units.Seconds, width: 6, about: "On average, as engines tell it."},
			ask{`(rate(pdrouter_worker_engine_transfer_seconds_total{@worker}[$r]) >= 0) / (rate(pdrouter_worker_engine_transfers_total{@worker}[$r]) > 0)`, "{{role}} {{worker}}"}),
		lines(look{title: "Prompt tokens on decode", unit: units.Short, width: 6, about: "Per second: that came over, and that decode computed though they should have come over (recomputed)."},
			ask{`rate(pdrouter_worker_engine_transferred_in_tokens_total{@worker,role="decode"}[$r]) >= 0`, "came over {{worker}}"},
			ask{`rate(pdrouter_worker_recomputed_tokens_total{@worker}[$r]) >= 0`, "recomputed {{worker}}"}),
	}}
}

// breaker are smg's numbers for the states of a breaker.
func breaker() map[string]dashboard.ValueMappingResult {
	return map[string]dashboard.ValueMappingResult{"0": named("closed", "green"), "1": named("open", "red"), "2": named("half-open", "orange")}
}

func failureRow() row {
	return row{"What fails, and what is done about it", []panel{
		states(look{title: "May take requests", width: 6},
			map[string]dashboard.ValueMappingResult{"0": named("no", "red"), "1": named("yes", "green")},
			ask{`smg_worker_health{@worker}`, "{{worker}}"}),
		states(look{title: "Breakers", width: 6, about: "Of workers; of pairs those whose hand-off has failed once."}, breaker(),
			ask{`smg_worker_cb_state{@worker}`, "{{worker}}"},
			ask{`pdrouter_pair_cb_state{@router}`, "{{prefill}} to {{decode}}"}),
		lines(look{title: "Legs that failed", unit: units.RequestsPerSecond, width: 6, about: "failed: the worker's fault; handoff: the pair's."},
			ask{`sum by (role, worker, outcome) (rate(pdrouter_legs_total{@worker,outcome=~"failed|handoff"}[$r]))`, "{{role}} {{worker}} {{outcome}}"}),
		lines(look{title: "Attempts after the first", unit: units.RequestsPerSecond, width: 6, about: "Retries, requests that failed in spite of them, retries that the budget denied; and how many may be made at once."},
			ask{`sum(rate(smg_worker_retries_total{@router,worker_type="decode"}[$r]))`, "retries"},
			ask{`sum(rate(smg_worker_retries_exhausted_total{@router,worker_type="decode"}[$r]))`, "in vain"},
			ask{`sum(rate(pdrouter_retries_denied_total{@router}[$r]))`, "denied"},
			ask{`min(pdrouter_retry_budget{@router})`, "budget"}),
	}}
}

func engineRow() row {
	return row{"Engines", []panel{
		lines(look{title: "Requests that run", unit: units.Short, width: 6, about: "As the engines say."},
			ask{`pdrouter_worker_engine_running_requests{@worker} >= 0`, "{{role}} {{worker}}"}),
		lines(look{title: "Requests that wait in engines", unit: units.Short, width: 6, about: "For room, and of those the ones that wait for their KV to come over or to be fetched."},
			ask{`pdrouter_worker_engine_waiting_requests{@worker} >= 0`, "{{role}} {{worker}}"},
			ask{`pdrouter_worker_engine_transfer_queue_requests{@worker} >= 0`, "transfer {{role}} {{worker}}"}),
		lines(look{title: "Preemptions", unit: units.Short, width: 6, about: "In five minutes: requests that an engine took from its KV cache (SGLang: retracted)."},
			ask{`increase(pdrouter_worker_engine_preempted_requests_total{@worker}[5m]) >= 0`, "{{role}} {{worker}}"}),
		lines(look{title: "Tokens per second", unit: units.Short, width: 6, about: "Of answers on decode; of prompts on prefill, and those of them that were computed."},
			ask{`rate(pdrouter_worker_engine_generated_tokens_total{@worker,role="decode"}[$r]) >= 0`, "generated {{worker}}"},
			ask{`rate(pdrouter_worker_engine_prompt_tokens_total{@worker,role="prefill"}[$r]) >= 0`, "prompts {{worker}}"},
			ask{`rate(pdrouter_worker_engine_computed_tokens_total{@worker,role="prefill"}[$r]) >= 0`, "computed {{worker}}"}),
		lines(look{title: "KV cache of decode, in tokens", unit: units.Short, about: "In use, expected to be needed at the most by what the router has there (reserved), and all there is."},
			ask{`pdrouter_worker_kv_used_tokens{@worker,role="decode"} >= 0`, "used {{worker}}"},
			ask{`pdrouter_worker_kv_reserved_tokens{@worker,role="decode"} >= 0`, "reserved {{worker}}"},
			ask{`pdrouter_worker_kv_capacity_tokens{@worker,role="decode"} >= 0`, "capacity {{worker}}"}),
		lines(look{title: "Kept for reuse, in tokens", unit: units.Short, about: "Tokens that no request uses and that give way when room is needed. vLLM does not tell."},
			ask{`pdrouter_worker_kv_evictable_tokens{@worker} >= 0`, "{{role}} {{worker}}"}),
		lines(look{title: "Drift of the ledger", unit: units.PercentUnit, signed: true, about: "What the last report had beyond what the router knew of, as a share of the capacity: requests of others, and wrong estimates."},
			ask{`pdrouter_worker_kv_ledger_drift_ratio{@worker,role="decode"}`, "{{worker}}"}),
	}}
}

func routerRow() row {
	return row{"The router itself", []panel{
		lines(look{title: "CPU", unit: units.Short, width: 6, about: "Cores in use."},
			ask{`rate(process_cpu_seconds_total{@router,job="pdrouter"}[$r])`, "{{instance}}"}),
		lines(look{title: "Memory", unit: units.BytesIEC, width: 6, about: "Resident, and request bodies held."},
			ask{`process_resident_memory_bytes{@router,job="pdrouter"}`, "{{instance}}"},
			ask{`pdrouter_buffered_request_bytes{@router}`, "bodies {{instance}}"}),
		numbers(look{title: "Version", unit: units.Short, width: 6}, nil,
			ask{`pdrouter_build_info{@router}`, "{{instance}}: {{version}} {{revision}}"}),
		numbers(look{title: "Workers by state", unit: units.Short, width: 6, about: "That may take requests, that may not, and that drain."}, nil,
			ask{`sum(smg_worker_health{@worker})`, "may take requests"},
			ask{`count(smg_worker_health{@worker}) - sum(smg_worker_health{@worker})`, "may not"},
			ask{`sum(pdrouter_worker_draining{@worker})`, "drain"}),
	}}
}
