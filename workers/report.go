package workers

import "time"

// A Report is what an engine said of itself at one moment. A number that the
// engine does not tell is NaN, never 0 (I8).
type Report struct {
	At      time.Time // when it was read
	Started time.Time // when the engine's process started; zero if it does not tell

	KVCapacity  float64 // tokens that the KV pool holds
	KVUsed      float64 // of them in use by requests
	KVEvictable float64 // of them kept only because they might be asked for again
	BlockSize   float64 // tokens of one KV block

	Running   float64 // requests being computed
	Waiting   float64 // requests that wait for it
	Preempted float64 // total of requests thrown out again (vLLM: preempted, SGLang: retracted)

	CacheHitTokens   float64 // total of prompt tokens found in the prefix cache
	CacheQueryTokens float64 // total of prompt tokens looked up in it

	PromptTokens     float64 // total of prompt tokens
	GeneratedTokens  float64 // total of tokens generated
	TransferredIn    float64 // total of prompt tokens whose KV came from another engine
	ComputedLocally  float64 // total of prompt tokens that were computed here
	TransferQueue    float64 // requests whose hand-off is under way or waits
	TransferFailures float64 // total of hand-offs that failed
	TransferSeconds  float64 // total time of hand-offs
	Transfers        float64 // total of hand-offs
}
