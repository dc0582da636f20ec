// Package bench replays traces of LLM requests over HTTP: it reads a trace
// ([ReadTrace]), makes a prompt for each of its lines ([Request.Prompt]), sends
// them to an OpenAI server when they are due ([Replay]) and measures the
// answers ([Client]).
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
