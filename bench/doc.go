// Package bench replays traces of LLM requests: over HTTP against a server, or
// on a virtual clock against policies.
//
// Over HTTP it reads a trace ([ReadAny]), makes a prompt for each of its lines
// ([Request.Prompt]), sends them to an OpenAI server when they are due
// ([Replay]) and measures the answers ([Client]). On a virtual clock
// ([Virtual]) an hour takes a third of a second.
//
// It is not a load generator that asks as fast as it can: what a trace is good
// for are its own pauses, bursts and repetitions.
//
// # Traces
//
// The format is that of the traces which Mooncake's authors published: one
// JSON object per line, with the time of arrival, the lengths of prompt and
// answer in tokens, and one id for each 512 tokens of the prompt. Two prompts
// that have the same ids at their beginning begin with the same tokens. The
// first five minutes of the conversation trace are part of the package
// ([Conversation]); NOTICE says where they are from.
//
// ReadAny reads other forms too, see [Formats]. An error names the line.
//
// # On a virtual clock
//
// A model engine computes one prompt after the other, as they came; a prompt
// takes 30 ms and 0.1 ms for each token that is not cached. Its cache is an LRU
// of the trace's blocks, which forgets a prompt's last block first. A policy is
// the daemon's own code and is driven as the registry drives it. It sees only
// what a router can know:
//
//   - each request when it comes, as a chain of hashes and a length in bytes
//     (requests that come at the same time are seen together by a Planner);
//   - its own choices, and the end of each prefill leg, with what the engine
//     says of its tokens: how many, and how many cached;
//   - once a second each engine's report: its KV capacity and how many requests
//     it runs and has waiting; as old as Stale says;
//   - that a worker died, was added or flushed, when it happens.
//
// It does not see the caches, how fast engines are, how many bytes make a
// token, or what comes next in the trace. The policies of [References] know the
// first two of the engine's properties: they are what others have published,
// and reproduce the published figures, which is what says that the model is
// right. The replay is deterministic: the same trace, policy and seed give the
// same, and the seed only says which of equals comes first.
//
// [Cases] are the published figures and the goals that were set, with the
// fleets that they hold for; bench/table prints what is reached.
//
// # Life of a request
//
//  1. [Replay.Run] waits until the request is due and one of MaxOpen places is
//     free. What the second costs is the result's Lag.
//  2. Its prompt is made from its ids: equal ids give equal text.
//  3. [Client.Complete] sends it, streamed, and notes when each token comes.
//  4. If the replay has an Expect, the text is compared with what that says.
//  5. The result is counted in a [Tally] that can be read at any time.
//
// # Units
//
// Lengths are in tokens, of [BytesPerToken] bytes of text each. Times are as
// measured: who replays ten times as fast as the trace, against engines that
// are ten times as fast, multiplies them by ten to have those of the trace.
//
// # Errors
//
// A request that fails is a result with an error, not the end of a replay.
//
// # Concurrency
//
// A Client, a Replay and a Tally may be used by any number of goroutines.
// Replay.Run returns when the last of its goroutines has ended.
package bench
