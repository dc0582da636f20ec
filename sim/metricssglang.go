package sim

// sglangMetrics writes the families of an SGLang engine.
func (e *Engine) sglangMetrics(p *page) {
	st := e.Stats()
	n := &e.counts
	model := `engine_type="` + e.cfg.Role + `",model_name=` + string(appendJSON(nil, e.cfg.Model))
	p.family("sglang:process_cpu_seconds_total", "counter")
	p.sample("sglang:process_cpu_seconds_total", `component="detokenizer"`, e.cpuSeconds()/2)
	p.sample("sglang:process_cpu_seconds_total", `component="tokenizer"`, e.cpuSeconds()/2)
	p.labels = model + `,moe_ep_rank="0",pp_rank="0",tp_rank="0"`
	e.sglangScheduler(p, st)
	// Engines show these from the first event on.
	if st.FailedTransfers > 0 {
		failed := map[string]string{Prefill: "bootstrap", Decode: "transfer"}[e.cfg.Role]
		p.counter("sglang:num_"+failed+"_failed_reqs_total", st.FailedTransfers)
	}
	if e.cfg.Role == Prefill {
		p.histogram("sglang:kv_transfer_latency_ms", n.transferTime.times(1e3))
		p.histogram("sglang:kv_transfer_total_mb", n.transferVolume.times(1.0/(1<<20)))
	}
	e.sglangPrefillTokens(p, st)
	p.family("sglang:realtime_tokens_total", "counter")
	if e.cfg.Role == Prefill {
		p.sample("sglang:realtime_tokens_total", `mode="prefill_compute"`, float64(st.ComputedTokens))
		p.sample("sglang:realtime_tokens_total", `mode="prefill_cache"`, float64(st.HitTokens))
	} else {
		p.sample("sglang:realtime_tokens_total", `mode="decode"`, float64(st.DecodedTokens))
	}
	p.histogram("sglang:queue_time_seconds", &n.queue)

	p.labels = model
	p.histogram("sglang:e2e_request_latency_seconds", &n.streamed[0].whole, &n.streamed[1].whole)
	p.histogram("sglang:prompt_tokens_histogram", &n.promptLength)
	p.histogram("sglang:generation_tokens_histogram", &n.answerLength)
	if e.cfg.Role == Decode {
		p.histogram("sglang:time_to_first_token_seconds", &n.streamed[0].firstToken, &n.streamed[1].firstToken)
	}
	streams := func(name string, value func(*streamCounts) uint64) {
		p.family(name, "counter")
		p.sample(name, `is_streaming="false"`, float64(value(&n.streamed[0])))
		p.sample(name, `is_streaming="true"`, float64(value(&n.streamed[1])))
	}
	streams("sglang:prompt_tokens_total", func(s *streamCounts) uint64 { return s.prompt.Load() })
	streams("sglang:generation_tokens_total", func(s *streamCounts) uint64 { return s.generated.Load() })
	streams("sglang:num_requests_total", func(s *streamCounts) uint64 { return s.requests.Load() })
	p.counter("sglang:num_aborted_requests_total", st.Aborted)
	if st.Preemptions > 0 {
		p.counter("sglang:num_retracted_requests_total", st.Preemptions)
	}
	p.family("sglang:cached_tokens_total", "counter")
	p.sample("sglang:cached_tokens_total", `cache_source="device"`, float64(st.CachedTokens))
}

// sglangPrefillTokens writes what became of the prompts' tokens. Decode engines
// write it too, all zero.
func (e *Engine) sglangPrefillTokens(p *page, st Stats) {
	const name = "sglang:prefill_effective_tokens_total"
	var computed, hit uint64
	if e.cfg.Role == Prefill {
		computed, hit = st.FirstComputed, st.HitTokens
	}
	p.family(name, "counter")
	p.sample(name, `mode="input"`, float64(computed))
	p.sample(name, `mode="device_hit"`, float64(hit))
	p.sample(name, `mode="host_hit"`, 0)
	p.sample(name, `mode="storage_hit"`, 0)
}

// sglangScheduler writes the gauges of the scheduler.
func (e *Engine) sglangScheduler(p *page, st Stats) {
	q := e.queues(st)
	usage := ratio(st.UsedTokens, st.CapacityTokens)
	idle := st.IdleBlocks * st.BlockSize
	for _, g := range []struct {
		name string
		v    float64
	}{
		{"max_total_num_tokens", float64(st.CapacityTokens)},
		{"page_size", float64(st.BlockSize)},
		{"num_pages", float64(st.TotalBlocks)},
		{"context_len", float64(e.cfg.ContextLength)},
		{"num_running_reqs", float64(st.Running)},
		{"num_queue_reqs", float64(q.waiting)},
		{"num_grammar_queue_reqs", 0},
		{"gen_throughput", 0},
		{"cache_hit_rate", ratio(int(st.HitTokens), int(st.QueriedTokens))},
		{"decode_sum_seq_lens", float64(st.UsedTokens)},
		{"token_usage", usage},
		{"full_token_usage", usage},
		{"num_used_tokens", float64(st.UsedTokens)},
		{"kv_available_tokens", float64(st.CapacityTokens - st.UsedTokens - idle)},
		{"kv_evictable_tokens", float64(idle)},
		{"kv_used_tokens", float64(st.UsedTokens)},
		{"num_prefill_bootstrap_queue_reqs", float64(q.bootstrap)},
		{"num_prefill_inflight_queue_reqs", 0},
		{"num_decode_prealloc_queue_reqs", float64(q.prealloc)},
		{"num_decode_transfer_queue_reqs", float64(q.transfer)},
		{"pending_prealloc_token_usage", 0},
		{"num_retracted_reqs", float64(st.Preempted)},
		{"num_paused_reqs", 0},
		{"utilization", ratio(st.Running, e.cfg.MaxRunning)},
		{"new_token_ratio", 0},
	} {
		p.gauge("sglang:"+g.name, g.v)
	}
}
