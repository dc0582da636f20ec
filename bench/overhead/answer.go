package main

import (
	"bytes"
	"fmt"
)

// The dialects.
const (
	sglang   = "sglang"
	vllmNIXL = "vllm-nixl"
)

// model is what the engines serve.
const model = "bench"

// Answers have the heads and the shape of those captured from real engines.
const (
	jsonHead   = "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 12:05:12 GMT\r\nserver: uvicorn\r\ncontent-length: %d\r\ncontent-type: application/json\r\n\r\n"
	streamHead = "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 12:05:12 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
	lastChunk  = "0\r\n\r\n"

	event = `data: {"id":"b089f3bc4f6144b9a0bafcc174941427","object":"chat.completion.chunk","created":1796040313,"model":"bench",` +
		`"choices":[{"index":0,"delta":{"content":" river"},"logprobs":null,"finish_reason":%s}]}` + "\n\n"
	done = "data: [DONE]\n\n"

	completion = `{"id":"b089f3bc4f6144b9a0bafcc174941427","object":"chat.completion","created":1796040313,"model":"bench",` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":"%s","tool_calls":null},"logprobs":null,"finish_reason":"length"}],` +
		`"usage":{"prompt_tokens":256,"total_tokens":320,"completion_tokens":64,"prompt_tokens_details":null}%s}`

	// handOff is what a vLLM prefill engine says of the blocks it holds.
	handOff = `,"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[47,48]],` +
		`"remote_engine_id":"prefill-0","remote_request_id":"chatcmpl-a2422f2a8e280ae7-a5080404","remote_host":"127.0.0.1","remote_port":5601,` +
		`"tp_size":1,"remote_num_tokens":256,"remote_blocks_expiry_time":null,"transfer_mode":"pull","remote_prefill_cached_tokens":0}`
)

// A reply is an answer of an engine, ready to be sent.
type reply struct {
	first []byte // in one write
	chunk []byte // then this
	times int    // so often, each by itself
	rest  []byte // and this at the end
}

// decodeReply returns what a decode engine answers.
func (w workload) decodeReply() reply {
	if w.chunks == 0 {
		return whole(fmt.Sprintf(completion, prose(320, 0), ""))
	}
	return reply{
		first: append([]byte(streamHead), chunked(fmt.Sprintf(event, "null"))...),
		chunk: chunked(fmt.Sprintf(event, "null")),
		times: w.chunks - 2,
		rest:  bytes.Join([][]byte{chunked(fmt.Sprintf(event, `"length"`)), chunked(done), []byte(lastChunk)}, nil),
	}
}

// bodySize returns the length of what a client gets.
func (w workload) bodySize() int {
	if w.chunks == 0 {
		return len(fmt.Sprintf(completion, prose(320, 0), ""))
	}
	return (w.chunks-1)*len(fmt.Sprintf(event, "null")) + len(fmt.Sprintf(event, `"length"`)) + len(done)
}

// prefillReply returns what a prefill engine answers, which is short.
func prefillReply(dialect string, stream bool) reply {
	if stream {
		body := bytes.Join([][]byte{chunked(fmt.Sprintf(event, `"length"`)), chunked(done), []byte(lastChunk)}, nil)
		return reply{first: append([]byte(streamHead), body...)}
	}
	extra := ""
	if dialect == vllmNIXL {
		extra = handOff
	}
	return whole(fmt.Sprintf(completion, "The", extra))
}

func whole(body string) reply {
	return reply{first: append(fmt.Appendf(nil, jsonHead, len(body)), body...)}
}

func chunked(data string) []byte {
	return fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data)
}

// page returns what an engine says of itself at path, by which the router
// learns what it is; ok is false if it has no such page.
func page(dialect, role, path string) (body string, ok bool) {
	switch {
	case path == "/v1/models":
		return `{"object":"list","data":[{"id":"` + model + `","object":"model","created":1796040313,"owned_by":"bench"}]}`, true
	case path == "/health":
		return "", true
	case dialect == sglang && path == "/server_info":
		return `{"version":"0.5.6","disaggregation_mode":"` + role + `","disaggregation_bootstrap_port":8998,"host":"127.0.0.1","page_size":1,"kv_cache_dtype":"auto"}`, true
	case dialect == sglang && path == "/abort_request":
		return "", true
	case dialect == vllmNIXL && path == "/version":
		return `{"version":"0.12.0"}`, true
	case dialect == vllmNIXL && path == "/metrics":
		return "# TYPE vllm:nixl_num_failed_transfers_total counter\nvllm:nixl_num_failed_transfers_total 0\n", true
	}
	return "", false
}
