package transfer

import "bytes"

// A key is a name in a request body that means something to us.
type key uint8

// The keys. keyHandoff stands for all that are removed. Behind it are those that
// say something of a prompt and are not ours to write or to refuse.
const (
	keyOther key = iota // not ours: passes untouched
	keyModel
	keyStream
	keyStreamOptions
	keyMaxTokens
	keyMaxCompletionTokens
	keyMinTokens
	keyMinCompletionTokens
	keyN
	keyPrompt
	keyPromptEmbeds
	keyMessages
	keyTools
	keyText
	keyInputIDs
	keyInputEmbeds
	keyImageData
	keyVideoData
	keyAudioData
	keySamplingParams
	keyCacheSalt
	keyExtraKey
	keyLoraPath
	keyLogprobs
	keyTopLogprobs
	keyPromptLogprobs
	keyEcho
	keyReturnTokenIDs
	keyReturnLogprob
	keyLogprobStartLen
	keyTokenIDsLogprob
	keyXargs
	keyHandoff
	keyChatTemplate
	keyTemplateArgs
	keyDocuments
	keyReasoningEffort
	keyMediaArgs
	keyRoutingKey
	keySessionParams
	keySessionID
	keyConversation
	keyConversationID
	keyPromptCacheKey
	keyUser
	keyPriority
	keyCount
)

// isPrompt tells whether a key's value is a prompt or a list of prompts.
func (k key) isPrompt() bool {
	return k == keyPrompt || k == keyText || k == keyInputIDs || k == keyInputEmbeds
}

// maxKeyLen is longer than any name below, in bytes.
const maxKeyLen = 40

// keyOf returns the key that a name is on an endpoint.
func keyOf(e Endpoint, name []byte) key {
	switch string(name) { // does not allocate
	case "model":
		return keyModel
	case "stream":
		return keyStream
	case "stream_options":
		return keyStreamOptions
	case "cache_salt":
		return keyCacheSalt
	case "extra_key":
		return keyExtraKey
	case "lora_path":
		return keyLoraPath
	case "vllm_xargs":
		return keyXargs
	case "priority":
		return keyPriority
	}
	if handoffKey(name) {
		return keyHandoff
	}
	if k := hintKey(name); k != keyOther {
		return k
	}
	if e == Generate {
		return generateKey(name)
	}
	return openAIKey(e, name)
}

func openAIKey(e Endpoint, name []byte) key {
	switch string(name) {
	case "max_tokens":
		return keyMaxTokens
	case "max_completion_tokens":
		return keyMaxCompletionTokens
	case "min_tokens":
		return keyMinTokens
	case "min_completion_tokens":
		return keyMinCompletionTokens
	case "n":
		return keyN
	case "logprobs":
		return keyLogprobs
	case "top_logprobs":
		return keyTopLogprobs
	case "prompt_logprobs":
		return keyPromptLogprobs
	case "echo":
		return keyEcho
	case "return_token_ids":
		return keyReturnTokenIDs
	}
	if e == Chat {
		return chatKey(name)
	}
	switch string(name) {
	case "prompt":
		return keyPrompt
	case "prompt_embeds":
		return keyPromptEmbeds
	}
	return keyOther
}

func chatKey(name []byte) key {
	switch string(name) {
	case "messages":
		return keyMessages
	case "tools":
		return keyTools
	case "input_ids": // SGLang: the prompt instead of the rendered messages
		return keyInputIDs
	case "chat_template":
		return keyChatTemplate
	case "chat_template_kwargs":
		return keyTemplateArgs
	case "documents":
		return keyDocuments
	case "reasoning_effort":
		return keyReasoningEffort
	case "mm_processor_kwargs":
		return keyMediaArgs
	}
	return keyOther
}

func generateKey(name []byte) key {
	switch string(name) {
	case "text":
		return keyText
	case "input_ids":
		return keyInputIDs
	case "input_embeds":
		return keyInputEmbeds
	case "image_data":
		return keyImageData
	case "video_data":
		return keyVideoData
	case "audio_data":
		return keyAudioData
	case "sampling_params":
		return keySamplingParams
	case "return_logprob":
		return keyReturnLogprob
	case "logprob_start_len":
		return keyLogprobStartLen
	case "token_ids_logprob":
		return keyTokenIDsLogprob
	}
	return keyOther
}

// handoffKey tells whether a name steers the hand-off, an engine's choice of
// rank, an address that an engine connects to, or the identity of a request.
// No client may set one: a vLLM server dies of a malformed kv_transfer_params,
// an SGLang room that is used twice answers with another client's text. They
// are removed in every dialect, because one engine's word means nothing to the
// other and what a name will mean in the next release is not known.
//
// Sources: SGLang 0.5.23 entrypoints/openai/protocol.py (PDRoutingFields, rid,
// data_parallel_rank) and managers/io_struct.py (GenerateReqInput), newer
// names from its main branch; vLLM 0.32 entrypoints/openai/*/protocol.py;
// TensorRT-LLM, LMCache and lmdeploy as their routers send them.
func handoffKey(name []byte) bool {
	switch string(name) {
	case "bootstrap_host", "bootstrap_port", "bootstrap_room", "bootstrap_pair_key",
		"decode_tp_size", "disagg_prefill_dp_rank", "routed_dp_rank", "data_parallel_rank",
		"pd_rebootstrap_prefill_url", "prefill_http_port":
		return true // SGLang: the hand-off and its ranks
	case "rid", "request_id", "http_worker_ipc":
		return true // who a request is, and which process is told its answer
	case "encoder_urls", "num_items_assigned", "need_wait_for_mm_inputs",
		"kv_hints", "kv_router_hint":
		return true // SGLang: encoders and caches elsewhere that it connects to
	case "kv_transfer_params", "ec_transfer_params":
		return true // vLLM
	case "disaggregated_params", "disagg_prefill_resp", "migration_request",
		"with_cache", "preserve_cache":
		return true // TensorRT-LLM, vLLM on Neuron, lmdeploy
	}
	return false
}

// name returns the key's text with its escapes undone, in buf if it has any. A
// name too long for buf is none of ours and comes back as it is.
func (m *member) name(b []byte, buf *[maxKeyLen]byte) []byte {
	raw := b[m.key+1 : m.keyEnd-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return unescapeASCII(raw, buf)
}

// unescapeASCII undoes the escapes of a scanned string as far as they are
// ASCII, which is all that our keys are made of.
func unescapeASCII(raw []byte, buf *[maxKeyLen]byte) []byte {
	n := 0
	for i := 0; i < len(raw); n++ {
		if n == len(buf) {
			return raw
		}
		r, size := unescape(raw[i:])
		if r > 0x7f {
			return raw
		}
		buf[n] = byte(r)
		i += size
	}
	return buf[:n]
}
