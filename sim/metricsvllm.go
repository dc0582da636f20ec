package sim

import "strconv"

// vllmMetrics writes the families of a vLLM engine.
func (e *Engine) vllmMetrics(p *page) {
	st := e.Stats()
	n := &e.counts
	p.family("process_start_time_seconds", "gauge")
	p.sample("process_start_time_seconds", "", float64(e.started.UnixMilli())/1e3)
	p.family("process_cpu_seconds_total", "counter")
	p.sample("process_cpu_seconds_total", "", e.cpuSeconds())
	model := `model_name=` + string(appendJSON(nil, e.cfg.Model))
	p.labels = `engine="0",` + model
	p.histogram("vllm:nixl_xfer_time_seconds", &n.transferTime)
	p.histogram("vllm:nixl_bytes_transferred", &n.transferVolume)
	p.counter("vllm:nixl_num_failed_transfers_total", st.FailedTransfers)
	p.counter("vllm:nixl_num_failed_notifications_total", 0)
	p.counter("vllm:nixl_num_kv_expired_reqs_total", st.ExpiredHolds)
	p.gauge("vllm:num_requests_running", float64(st.Running))
	p.gauge("vllm:num_requests_waiting", float64(st.Waiting+st.Transferring))
	p.family("vllm:num_requests_waiting_by_reason", "gauge")
	p.sample("vllm:num_requests_waiting_by_reason", `reason="capacity"`, float64(st.Waiting))
	p.sample("vllm:num_requests_waiting_by_reason", `reason="deferred"`, float64(st.Transferring))
	if e.cfg.Role == Decode {
		p.family("vllm:num_requests_kv_fetch_by_stage", "gauge")
		p.sample("vllm:num_requests_kv_fetch_by_stage", `stage="waiting_to_start"`, 0)
		p.sample("vllm:num_requests_kv_fetch_by_stage", `stage="in_progress"`, float64(st.Transferring))
		p.sample("vllm:num_requests_kv_fetch_by_stage", `stage="completed_waiting"`, 0)
	}
	p.gauge("vllm:kv_cache_usage_perc", ratio(st.UsedBlocks, st.TotalBlocks))
	e.vllmTokens(p, st)
	p.counter("vllm:num_preemptions_total", st.Preemptions)
	p.family("vllm:request_success_total", "counter")
	for _, r := range []struct {
		reason string
		n      uint64
	}{
		{"stop", n.stopped.Load()},
		{"length", n.reached.Load()},
		{"abort", n.aborted.Load()},
		{"error", n.failed.Load()},
		{"repetition", 0},
	} {
		p.sample("vllm:request_success_total", `finished_reason="`+r.reason+`"`, float64(r.n))
	}
	p.histogram("vllm:request_prompt_tokens", &n.promptLength)
	p.histogram("vllm:request_generation_tokens", &n.answerLength)
	p.histogram("vllm:time_to_first_token_seconds", n.streamed[0].firstToken.plus(&n.streamed[1].firstToken))
	p.histogram("vllm:e2e_request_latency_seconds", n.streamed[0].whole.plus(&n.streamed[1].whole))
	p.histogram("vllm:request_queue_time_seconds", &n.queue)
	e.vllmCacheConfig(p, st)
}

// vllmTokens writes the counters of tokens.
func (e *Engine) vllmTokens(p *page, st Stats) {
	p.counter("vllm:prefix_cache_queries_total", st.QueriedTokens)
	p.counter("vllm:prefix_cache_hits_total", st.HitTokens)
	p.counter("vllm:external_prefix_cache_queries_total", st.QueriedTokens-st.HitTokens)
	p.counter("vllm:external_prefix_cache_hits_total", st.ReceivedTokens)
	p.counter("vllm:prompt_tokens_total", st.FirstComputed+st.HitTokens+st.ReceivedTokens)
	const source = "vllm:prompt_tokens_by_source_total"
	p.family(source, "counter")
	p.sample(source, `source="local_compute"`, float64(st.FirstComputed))
	p.sample(source, `source="local_cache_hit"`, float64(st.HitTokens))
	p.sample(source, `source="external_kv_transfer"`, float64(st.ReceivedTokens))
	p.counter("vllm:prompt_tokens_cached_total", st.HitTokens+st.ReceivedTokens)
	const cached = "vllm:prompt_tokens_cached_by_source_total"
	p.family(cached, "counter")
	p.sample(cached, `source="device"`, float64(st.HitTokens))
	p.sample(cached, `source="host"`, 0)
	p.sample(cached, `source="p2p"`, float64(st.ReceivedTokens))
	p.sample(cached, `source="disk"`, 0)
	p.sample(cached, `source="external_unspecified"`, 0)
	p.counter("vllm:generation_tokens_total", st.DecodedTokens)
}

// vllmCacheConfig writes what the engine's cache is like, as labels.
func (e *Engine) vllmCacheConfig(p *page, st Stats) {
	size := strconv.Itoa(st.BlockSize)
	pool := st.TotalBlocks + 1 // with the null block, which holds nothing
	p.labels = `_block_size_resolved="True",block_size="` + size + `",cache_dtype="auto",effective_attention_block_size="` + size +
		`",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.92",kv_cache_max_concurrency="` +
		strconv.FormatFloat(ratio(pool*st.BlockSize, e.cfg.ContextLength), 'f', -1, 64) +
		`",kv_cache_size_tokens="` + strconv.Itoa(pool*st.BlockSize) + `",num_gpu_blocks="` + strconv.Itoa(pool) +
		`",num_gpu_blocks_override="None",prefix_caching_hash_algo="sha256",sliding_window="None"`
	p.gauge("vllm:cache_config_info", 1)
}
