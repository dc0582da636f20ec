package metrics

import (
	"strings"
	"testing"
)

// A leftOut says why families of smg's are not ours.
type leftOut struct{ families, why string }

// leftOuts are all that smg 1.13 has, by what it exported and what its help says,
// and this router has not.
func leftOuts() []leftOut {
	return []leftOut{
		{"smg_allocator_active_bytes smg_allocator_allocated_bytes smg_allocator_metadata_bytes smg_allocator_resident_bytes", "jemalloc's; Go's memory is in `go_memstats_*` and `process_resident_memory_bytes`"},
		{"smg_tokio_alive_tasks smg_tokio_event_loop_delay_seconds smg_tokio_event_loop_stalls_total smg_tokio_global_queue_depth smg_tokio_worker_busy_ratio smg_tokio_worker_parks_total smg_tokio_workers", "tokio's; Go's scheduler is in `go_goroutines`, `go_threads` and `process_cpu_seconds_total`"},
		{"smg_tokenizer_cache_evictions_total smg_tokenizer_cache_lookups_total smg_tokenizer_cache_reused_bytes_total smg_tokenizer_encode_fallbacks_total smg_tokenizer_encode_path_loads_total smg_detokenize_prefix_mismatch_total", "there is no tokenizer in the router"},
		{"smg_history_memory_records smg_db_connections_active smg_db_items_stored smg_db_operation_duration_seconds smg_db_operations_total smg_responses_not_stored_total smg_responses_stream_failures_total", "no history is kept"},
		{"smg_mcp_tool_calls_total smg_mcp_tool_duration_seconds smg_mcp_servers_active smg_mcp_tool_iterations_total", "no tools are run"},
		{"smg_mm_tensors_total smg_mm_tensor_bytes_total smg_mm_shm_write_failures_total smg_mm_processing_total smg_mm_pixel_cache_bytes smg_mm_pixel_cache_entries smg_mm_pixel_cache_evictions_total smg_mm_pixel_cache_hits_total smg_mm_pixel_cache_misses_total smg_mm_turbojpeg_available smg_mm_webp_available", "media go to the engines as they came"},
		{"smg_rl_control_calls_total smg_rl_control_call_duration_seconds smg_rl_fanout_total smg_rl_fanout_duration_seconds", "there is no control plane for training"},
		{"router_mesh_peer_connections router_mesh_peer_reconnects_total router_mesh_peer_ack_total router_mesh_peer_nack_total router_mesh_sync_round_duration_seconds router_mesh_store_cardinality router_mesh_store_hash router_rl_drift_ratio router_lb_drift_ratio", "routers do not form a mesh"},
		{"smg_log_dropped_lines", "no log line is dropped"},
		{"smg_router_stage_duration_seconds smg_worker_connections_active", "smg describes it and never counts it"},
		{"smg_router_request_buffers_released_early_bytes_total", "a body is kept until nothing needs it any more, whatever the retries; what is held is `pdrouter_buffered_request_bytes`"},
		{"smg_http_connection_timeouts_total", "connections without a request are net/http's to close, and are not counted"},
		{"smg_pd_decode_ttft_seconds", "`smg_pd_kv_transfer_duration_seconds` is that for dialects that prefill first"},
		{"smg_pd_prefill_admission_inflight smg_pd_prefill_admission_queued smg_pd_prefill_admission_wait_seconds smg_pd_prefill_admission_rejections_total", "`smg_worker_requests_active` of prefill workers, and `pdrouter_lease_waiting_requests`, `pdrouter_admission_wait_seconds` and `pdrouter_admission_sheds_total` with `for=\"prefill\"`"},
		{"smg_pd_rendezvous_failures_total", "a prefill engine whose bootstrap server does not answer gets no requests, see `smg_worker_health`; hand-offs that failed are `pdrouter_legs_total{outcome=\"handoff\"}`"},
		{"smg_workers_overloaded smg_worker_overload_fallback_total", "no worker is flagged as overloaded: a request goes where there is room for it, or waits"},
		{"smg_worker_stalled smg_worker_stall_transitions_total smg_worker_liveness_fallback_total", "a worker that hangs is left out, see `smg_worker_health`, and nothing is sent to it for want of another"},
		{"smg_worker_routing_keys_active", "which routing keys are under way is not kept by worker"},
		{"smg_cache_placement_entries", "the index is not by model: `pdrouter_policy_index_blocks` has its entries by worker"},
		{"smg_cache_tree_chars smg_cache_tree_tokens smg_cache_tree_tenants", "there is no tree: `pdrouter_policy_index_blocks`"},
		{"smg_policy_inflight_reconciled_total", "what a policy books ends with the lease, without fail"},
		{"smg_kv_event_subscription_failures_total", "its reasons are failures of tokio tasks; `pdrouter_kv_events_followed` says who is listened to"},
		{"smg_kv_event_apply_seconds smg_kv_event_batches_total smg_kv_event_blocks_total smg_kv_event_degraded_ranks smg_kv_event_gaps_total smg_kv_event_lag_seconds smg_kv_event_missed_batches_total smg_kv_event_parentless_blocks_total smg_kv_event_parentless_stores_total smg_kv_event_resyncs_total smg_kv_event_stream_errors_total smg_kv_event_subscriptions_total smg_kv_events_unavailable", "of KV events over gRPC; those over ZeroMQ are in `pdrouter_kv_events_total`"},
		{"smg_kv_index_arena_bytes smg_kv_index_arena_free_bytes smg_kv_index_blocks smg_kv_index_blocks_live smg_kv_index_engine_conflicts smg_kv_index_entries smg_kv_index_lookup_seconds smg_kv_index_memberships smg_kv_index_moved_hashes smg_kv_index_runs_live smg_kv_index_slab_bytes", "of another index; ours is in `pdrouter_policy_*`"},
		{"smg_scheduler_inflight smg_scheduler_queue_size_limit smg_scheduler_class_capacity_pressure", "no class has slots or a queue of its own"},
		{"smg_scheduler_queue_wait_seconds", "`pdrouter_admission_wait_seconds`"},
		{"smg_scheduler_preemption_total smg_scheduler_starvation_promotion_total", "nothing that has begun is ended for another, and nobody overtakes by age"},
		{"smg_scheduler_clamp_total smg_scheduler_unknown_priority_value_total", "tenants are no labels; `pdrouter_priority_claims_total`"},
		{"smg_discovery_snapshot_errors_total", "a file that is refused is said in the log, once"},
	}
}

// TestEverySMGFamilyIsAccountedFor: each is ours or left out, and not both.
func TestEverySMGFamilyIsAccountedFor(t *testing.T) {
	ours := map[string]bool{}
	for _, f := range families(t) {
		ours[f.GetName()] = true
	}
	left := map[string]bool{}
	for _, l := range leftOuts() {
		for name := range strings.FieldsSeq(l.families) {
			if ours[name] || left[name] {
				t.Errorf("%s is left out, and is ours or left out again", name)
			}
			left[name] = true
		}
	}
	for name := range smgFamilies(t) {
		if !ours[name] && !left[name] {
			t.Errorf("%s is neither ours nor left out", name)
		}
	}
}
