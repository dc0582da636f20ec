package sim

import "sync/atomic"

// A state is where a sequence is in its life.
type state uint8

const (
	stateOut      state = iota // not yet, or no more, the scheduler's
	stateWaiting               // in the queue, without blocks
	stateArriving              // has blocks; computes its prompt or waits for its KV
	stateRunning               // generates; may lose its blocks
)

// A sequence is one prompt and its answer as the engine's scheduler sees it.
// The goroutine that serves it owns it, but for what scheduler.mu guards.
type sequence struct {
	id           uint64   // identity of the prompt whose KV the blocks hold
	prefixes     []uint64 // hash of the prompt up to the end of each of its blocks
	promptTokens int
	firstCached  int          // prompt tokens found in the cache when first admitted
	generated    atomic.Int64 // tokens of the answer so far

	ready   chan struct{} // admitted: has blocks
	evicted chan struct{} // preempted: is back in the queue

	// Guarded by scheduler.mu.
	state     state
	remote    bool // its prompt's KV comes from another engine: nothing to compute
	computing bool // holds the turn to compute
	blocks    []*block
	cached    int // tokens found in the cache at the last admission
}

// newSequence returns the sequence of a prompt for an engine whose blocks hold
// size tokens. A remote one has its KV handed over.
func newSequence(p prompt, size int, remote bool) *sequence {
	q := &sequence{
		prefixes:     p.prefixes(size),
		promptTokens: len(p.tokens),
		remote:       remote,
		ready:        make(chan struct{}, 1),
		evicted:      make(chan struct{}, 1),
	}
	if p.seed == 0 && len(q.prefixes) > 0 {
		q.id = q.prefixes[len(q.prefixes)-1]
	} else {
		q.id = p.identity()
	}
	return q
}

// tokens returns how many tokens of KV the sequence has to have to go on.
func (q *sequence) tokens() int { return q.promptTokens + int(q.generated.Load()) }
