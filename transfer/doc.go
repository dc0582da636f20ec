// Package transfer speaks the hand-off dialects: the ways in which engines give
// a prompt's KV blocks from a prefill worker to a decode worker. It turns one
// client request into the requests of the two legs, and judges what the engines
// answer. The KV cache itself moves from engine to engine, never through here.
//
// It does no I/O, starts no goroutine, keeps no state, and decodes nothing that
// is not ours: bodies stay as the client spelt them, and a leg is a list of
// slices of the client's body with our fragments between them.
//
// # Life of a request
//
//  1. [Parse] goes over the body once. It refuses what is not one JSON object
//     in UTF-8, notes where the keys are that we read or own, and which
//     hand-off keys the client set: those never reach an engine.
//     What the prompt is made from, what keeps its KV blocks apart from those of
//     equal prompts, and which requests the client says belong together, are
//     told by Prompt, Seed and Hint, for who chooses workers.
//  2. [Dialect] Check says, before any worker is touched, whether the dialect
//     can carry the request at all.
//  3. [NewAttempt] mints the tokens of one attempt: an id, and a room for each
//     prompt.
//  4. [Dialect] Prefill and Decode write the legs. A PrefillFirst dialect
//     writes the decode leg from prefill's answer, which it checks first.
//  5. [Verdict] judges prefill's answer, [Whole] decode's JSON answer,
//     [NextEvent] and [Classify] decode's stream, [ParseError] an error answer.
//  6. [Dialect] Merge joins the answers where the client asked for something
//     that only prefill knows (logprobs of the prompt, echo).
//
// # Invariants
//
//   - Bytes that are not ours are never changed, reordered or copied (I5).
//   - No key of a client selects a worker, an address or a hand-off, however it
//     is spelt and however often it is given (I6).
//   - An Attempt is used for one Prefill and one Decode (I2).
//   - What an engine did not say is unknown, never zero (I8).
//
// # Errors
//
// A [BadRequest] is the client's (status 400). An [EngineError] is what an
// engine said went wrong. [ErrNotJSON], [ErrBadHandOff] and [ErrUnfit] are an
// engine's answer that cannot be used (status 502).
//
// # Concurrency
//
// All functions may be called from any goroutine. A Request is not changed
// after Parse and may be shared; it keeps the body, which must not be written
// to as long as the Request or a Leg made from it is in use.
package transfer
