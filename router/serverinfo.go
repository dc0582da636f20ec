package router

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// shownInfo are the settings of an SGLang engine that its page may tell a
// client. It is an allow-list, whoever asks: the page has some 550 keys, more
// with each release, and among them are the engine's own keys (api_key,
// admin_api_key, ssl_keyfile_password), its addresses and its files. With those
// a client could go round the router.
func shownInfo() []string {
	return []string{
		"model_path", "tokenizer_path", "served_model_name", "version", "weight_version", "is_embedding",
		"dtype", "quantization", "kv_cache_dtype", "context_length", "page_size",
		"tp_size", "pp_size", "dp_size", "ep_size", "enable_dp_attention",
		"max_running_requests", "max_total_tokens", "max_total_num_tokens", "max_req_input_len", "max_prefill_tokens",
		"chunked_prefill_size", "mem_fraction_static", "schedule_policy", "schedule_conservativeness", "disable_radix_cache",
		"disaggregation_mode", "disaggregation_transfer_backend", "attention_backend", "sampling_backend", "grammar_backend",
		"reasoning_parser", "tool_call_parser", "enable_metrics",
		"speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
		"last_gen_throughput", "avg_spec_accept_length", "status",
	}
}

// serverInfo answers with what clients may know of the page of the first
// prefill engine.
func (h *Handler) serverInfo(c *call) error {
	return h.firstPrefill(c, "/get_server_info", (*solo).relayShown)
}

// relayShown passes on what may be shown of a page.
func (s *solo) relayShown(answer *page) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(answer.body, &all); err != nil || all == nil {
		return s.nonsense(errors.New("not a JSON object"))
	}
	info := map[string]any{}
	for key, value := range shown(all) {
		info[key] = value
	}
	var states []map[string]json.RawMessage
	if json.Unmarshal(all["internal_states"], &states) == nil && states != nil {
		for i, state := range states {
			states[i] = shown(state)
		}
		info["internal_states"] = states
	}
	return answerJSON(s.call, http.StatusOK, info)
}

// shown returns what of a page may be shown: plain values of known keys.
func shown(all map[string]json.RawMessage) map[string]json.RawMessage {
	some := map[string]json.RawMessage{}
	for _, key := range shownInfo() {
		if value, ok := all[key]; ok && !strings.ContainsRune("{[", rune(value[0])) {
			some[key] = value
		}
	}
	return some
}
