// Package sim is simulated engines: SGLang and vLLM (with NIXL) as prefill and
// as decode, which speak over HTTP what the real ones speak, hold KV blocks,
// hand them over from engine to engine, and can be told to fail.
//
// It is not a model of how fast a GPU is, and no engine's code: its times are
// what Config says. It imports nothing of the router's and decodes with
// encoding/json, so that it cannot share the router's mistakes. Where it
// differs from what a real engine was seen to do, it is wrong: the captures of
// real engines in testdata are replayed against it.
//
// # What stands for KV
//
// The KV of a prompt is the prompt's identity, a hash of its tokens, and it is
// what decode answers from: not from the prompt in its own body. So a wrong
// hand-off shows as it does on real engines, as 200 with the answer to another
// prompt. Decode gets it from prefill by HTTP, also between processes: from
// the bootstrap server (SGLang, see rooms) or the side channel (vLLM, see
// holds).
//
// # The answer
//
// Each token of an answer is a word that follows from the prompt and its
// place, so that a test knows the right one: [Expect] tells it for a body,
// [Text] and [Answer] for a text. A model ends its answer by itself after 8 to
// 31 tokens, by its prompt, unless the limit is lower or ignore_eos is set.
//
// # Life of a leg
//
//  1. The body is decoded; what a real engine refuses is refused in its words.
//  2. SGLang prefill waits for decode to join its room.
//  3. The scheduler gives the sequence its blocks, first come, first served.
//  4. Prefill computes what the prefix cache does not have, one prompt at a
//     time. Decode fetches the KV instead.
//  5. SGLang prefill hands over and frees its blocks; vLLM prefill answers
//     and holds them until they are pulled or their lease ends.
//  6. Decode generates. If it runs out of blocks, the sequence admitted last
//     loses its own and has to compute them again.
//
// # Violations
//
// What a router must never do is counted by kind ([Engine.Violations]) and
// answered as the real engine would, which is often with 200. A process tells
// each as it happens (Config.Violated), since it may be killed; with
// Config.Control it can be told to fail and asked for its state over HTTP.
//
// # Units
//
// Four bytes of text are a token; token ids are one each. Times are
// time.Duration; lengths and capacities are tokens, but where they say blocks.
//
// # Concurrency
//
// An Engine is safe for concurrent use. New starts no goroutine; those that Run
// starts have ended when it returns.
package sim
