package sim

import (
	_ "embed" // for what a real engine said
	"encoding/json"
	"strconv"
	"time"
)

// realServerInfo is what a real SGLang prefill engine answered to /server_info.
//
//go:embed serverinfo.json
var realServerInfo []byte

// serverInfo puts what the engine is into what a real one answers.
func (e *Engine) serverInfo() []byte {
	host, port := e.apiHostPort()
	balance := "follow_bootstrap_room"
	if e.cfg.Role == Decode {
		balance = "round_robin"
	}
	capacity := e.sched.capacity()
	ours := map[string]any{
		"model_path":                    "/models/" + e.cfg.Model,
		"tokenizer_path":                "/models/" + e.cfg.Model,
		"served_model_name":             e.cfg.Model,
		"context_length":                e.cfg.ContextLength,
		"page_size":                     e.cfg.BlockSize,
		"max_running_requests":          e.cfg.MaxRunning,
		"max_total_tokens":              capacity,
		"max_total_num_tokens":          capacity,
		"max_req_input_len":             min(capacity, e.cfg.ContextLength) - 6,
		"token_capacity":                capacity,
		"host":                          host,
		"port":                          port,
		"load_balance_method":           balance,
		"disable_radix_cache":           e.cfg.Role == Decode,
		"enable_metrics":                !e.cfg.NoMetrics,
		"disaggregation_mode":           e.cfg.Role,
		"disaggregation_bootstrap_port": e.BootstrapPort(),
	}
	return patched(realServerInfo, ours)
}

// patched returns a JSON object with other values for some keys, in it and in
// the objects of its internal_states, and in the order that it had.
func patched(object json.RawMessage, ours map[string]any) []byte {
	b := []byte{'{'}
	_ = eachKey(object, func(key string, dec *json.Decoder) error {
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if other, ok := ours[key]; ok {
			value, _ = json.Marshal(other)
		}
		var states []json.RawMessage
		if key == "internal_states" && json.Unmarshal(value, &states) == nil {
			for i := range states {
				states[i] = patched(states[i], ours)
			}
			value, _ = json.Marshal(states)
		}
		if key == "memory_usage" {
			value = patched(value, ours)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendJSON(b, key), ':')
		b = append(b, value...)
		return nil
	})
	return append(b, '}')
}

// modelInfo returns the body of /model_info.
func (e *Engine) modelInfo() []byte {
	path := string(appendJSON(nil, "/models/"+e.cfg.Model))
	b := []byte(`{"model_path":` + path + `,"served_model_name":`)
	b = appendJSON(b, e.cfg.Model)
	return append(b, `,"tokenizer_path":`+path+`,"is_generation":true,"preferred_sampling_params":null,`+
		`"weight_version":"default","load_format":"auto","reasoning_parser":null,"tool_call_parser":null,`+
		`"disaggregation_mode":"`+e.cfg.Role+`","has_image_understanding":false,"has_audio_understanding":false,`+
		`"model_type":"llama","architectures":["LlamaForCausalLM"],`+noEmbedding+`}`...)
}

// noEmbedding is what a model says of itself that makes no embeddings.
const noEmbedding = `"embedding":{"family":"none","task":"none","execution":"none","attention":"none",` +
	`"pooling":"model_defined","normalize":false,"postprocessor":"none","tokenizer_special_tokens":"model_default",` +
	`"supports_dimensions":false,"supports_token_embeddings":false,"supports_multimodal":false,` +
	`"requires_embedding_flag":false,"auto_enable_embedding":false,"bcg_eligibility":"disabled",` +
	`"safe_disable_kv_cache":false,"safe_disable_radix_cache":false,"safe_disable_chunked_prefill":false,` +
	`"enabled":false,"matryoshka_dimensions":[],"bcg":{"prefill_backend":"disabled","enabled":false,` +
	`"capture_token_budget":4096,"capture_batch_sizes":[4,8,12,16,20,24,28,32,48,64,80,96,112,128,144,160,176,192,` +
	`208,224,240,256,288,320,352,384,416,448,480,512,576,640,704,768,832,896,960,1024,1280,1536,1792,2048,2304,` +
	`2560,2816,3072,3328,3584,3840,4096]},"cache":{"kv_cache_disabled":false,"radix_cache_disabled":true,` +
	`"chunked_prefill_disabled":false}}`

// loads returns the body of /v1/loads, which is fresh where the gauges of
// /metrics lag.
func (e *Engine) loads() []byte {
	st := e.Stats()
	q := e.queues(st)
	now := time.Now()
	b := []byte(`{"timestamp":"` + now.UTC().Format("2006-01-02T15:04:05.000000-07:00") +
		`","version":"0.5.23","accelerator":null,"num_accelerators":1,"loads":[{"timestamp":`)
	b = appendSeconds(b, now)
	b = appendField(b, `,"dp_rank":0,"num_running_reqs":`, st.Running)
	b = appendField(b, `,"num_waiting_reqs":`, q.waiting+q.bootstrap+q.prealloc+q.transfer)
	b = append(b, `,"num_waiting_uncached_tokens":0`...)
	b = appendField(b, `,"num_used_tokens":`, st.UsedTokens)
	b = appendField(b, `,"num_total_tokens":`, st.UsedTokens)
	b = appendField(b, `,"num_active_tokens":`, st.UsedTokens)
	b = appendField(b, `,"num_prealloc_ready_tokens":0,"max_total_num_tokens":`, st.CapacityTokens)
	b = appendField(b, `,"max_running_requests":`, e.cfg.MaxRunning)
	b = appendFloat(b, `,"token_usage":`, ratio(st.UsedTokens, st.CapacityTokens))
	b = append(b, `,"gen_throughput":0.0`...)
	b = appendFloat(b, `,"cache_hit_rate":`, ratio(int(st.HitTokens), int(st.QueriedTokens)))
	b = appendFloat(b, `,"utilization":`, ratio(st.Running, e.cfg.MaxRunning))
	b = appendField(b, `,"total_prefill_uncached_tokens":`, int(st.ComputedTokens))
	b = append(b, `,"total_prefill_busy_us":0,"decode_moments":null,"memory":{"weight_gb":0.469,"kv_cache_gb":0.176,"graph_gb":0.0`...)
	b = appendField(b, `,"token_capacity":`, st.CapacityTokens)
	b = append(b, `},"disaggregation":{"mode":"`+e.cfg.Role+`"`...)
	b = appendField(b, `,"prefill_bootstrap_queue_reqs":`, q.bootstrap)
	b = appendField(b, `,"prefill_inflight_queue_reqs":0,"decode_prealloc_queue_reqs":`, q.prealloc)
	b = appendField(b, `,"decode_transfer_queue_reqs":`, q.transfer)
	b = appendField(b, `,"decode_retracted_queue_reqs":`, st.Preempted)
	b = append(b, `,"kv_transfer_speed_gb_s":0.0,"kv_transfer_latency_ms":0.0}`...)
	b = appendField(b, `,"queues":{"waiting":`, q.waiting)
	b = appendField(b, `,"grammar":0,"paused":0,"retracted":`, st.Preempted)
	return append(b, `,"prealloc_ready":0}}]}`...)
}

// queues is where SGLang's requests wait, by its names for it.
type queues struct{ bootstrap, waiting, prealloc, transfer int }

func (e *Engine) queues(st Stats) queues {
	if e.cfg.Role == Decode {
		return queues{prealloc: st.Waiting, transfer: st.Transferring}
	}
	q := queues{waiting: st.Waiting}
	if e.rooms != nil {
		q.bootstrap = e.rooms.waiting()
	}
	return q
}

// ratio returns a/b, 0 of nothing.
func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// appendFloat appends a key and a number that always has a point.
func appendFloat(b []byte, key string, v float64) []byte {
	b = append(b, key...)
	if v == float64(int64(v)) {
		return append(strconv.AppendInt(b, int64(v), 10), ".0"...)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}
