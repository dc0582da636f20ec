package health

import "pdrouter/workers"

// A Topic is what an Event is about.
type Topic string

// The topics.
const (
	Breaker  Topic = "breaker"  // From and To: closed, open, half-open
	Probes   Topic = "probes"   // From and To: answering, failing, unclear
	Progress Topic = "progress" // From and To: moving, stalled
	Canary   Topic = "canary"   // of a pair; From and To: working, failing
	Restart  Topic = "restart"  // the engine's process is a new one; From and To are empty
)

// An Event is a change of what is thought of a worker, or of a pair.
type Event struct {
	Topic    Topic
	Worker   *workers.Worker
	Decode   *workers.Worker // of a pair, whose prefill worker is Worker; else nil
	From, To string
	Reason   string
}
