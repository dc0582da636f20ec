package workers

import (
	"math"
	"time"
)

// A Report is what an engine said of itself at one moment. A number that the
// engine does not tell is NaN, never 0 (I8). An engine of several
// data-parallel ranks is told as one: their sums. Which of an engine's own
// names each number comes from is in docs/engine-metrics.md.
//
// A total counts from the engine's start and only falls when it starts again.
// SGLang shows some totals (Preempted, TransferFailures) from their first
// event on, so that NaN may turn into a number at any time.
type Report struct {
	At      time.Time // when it was read
	Started time.Time // when the engine's process started; zero if it does not tell

	KVCapacity  float64 // tokens that the KV pool holds
	KVUsed      float64 // of them in use by requests, or held for decode
	KVEvictable float64 // of them kept only because they might be asked for again
	BlockSize   float64 // tokens of one KV block
	MaxRunning  float64 // requests that are computed at a time, at most
	MaxContext  float64 // tokens of a prompt and its answer, at most

	Running       float64 // requests being computed
	Waiting       float64 // requests that wait for it, or for their KV
	TransferQueue float64 // requests whose hand-off waits or is under way
	Preempted     float64 // total of requests thrown out again (vLLM: preempted, SGLang: retracted)

	CacheHitTokens   float64 // total of prompt tokens found in the prefix cache
	CacheQueryTokens float64 // total of prompt tokens looked up in it

	PromptTokens    float64 // total of prompt tokens
	GeneratedTokens float64 // total of tokens generated
	TransferredIn   float64 // total of prompt tokens whose KV came from another engine
	ComputedLocally float64 // total of prompt tokens that were computed here

	Transfers        float64 // total of hand-offs done, on the side that counts them
	TransferSeconds  float64 // total time of these
	TransferFailures float64 // total of hand-offs that failed
	TransferExpired  float64 // total of hand-offs that decode did not fetch in time
	TransferBytes    float64 // total of bytes that hand-offs moved

	ProcessSeconds float64 // total of CPU time of the engine's processes; it falls with a restart
}

// unknown returns the Report of an engine that tells nothing.
func unknown() Report {
	nan := math.NaN()
	return Report{
		KVCapacity: nan, KVUsed: nan, KVEvictable: nan, BlockSize: nan, MaxRunning: nan, MaxContext: nan,
		Running: nan, Waiting: nan, TransferQueue: nan, Preempted: nan,
		CacheHitTokens: nan, CacheQueryTokens: nan,
		PromptTokens: nan, GeneratedTokens: nan, TransferredIn: nan, ComputedLocally: nan,
		Transfers: nan, TransferSeconds: nan, TransferFailures: nan, TransferExpired: nan, TransferBytes: nan,
		ProcessSeconds: nan,
	}
}
