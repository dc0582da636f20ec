package workers

import "sync"

// A Judge decides, by outcomes and by what engines report, who may take
// requests. Package health implements it. It says what it decided by
// Registry.Bar and Registry.BarPair. Its methods are called outside the
// registry's lock, by many goroutines.
type Judge interface {
	// Permit asks whether one request may go to a pair that was just picked.
	// All of prefill, decode and pair let it in, or none does; then another
	// pair is picked. It keeps in p what Ended needs.
	Permit(p *Permit, prefill, decode *Worker) bool

	// Began is told, once at most and before decode's Ended, that the first
	// token has come through the pair: the hand-off has worked, though decode
	// may still fail.
	Began(p *Permit)

	// Ended is told the outcome of each leg once, as Lease.Done takes it. The
	// pair is judged when both are in.
	Ended(p *Permit, role Role, outcome error)

	// Reported is told of each new report of an engine, or with now.At zero
	// why there is none: a *Fault that says Unreachable if the engine did not
	// answer, anything else if it answered something that is no report.
	Reported(w *Worker, before, now Report, err error)
}

// A Permit is what a Judge keeps for one pair of leases. It is part of the
// Pair, so that a lease allocates nothing.
type Permit struct {
	sync.Mutex // guards Outcome and Legs: two goroutines may end the two legs

	Prefill, Decode *Worker
	Epoch           [3]uint64      // of the breakers of prefill, decode and the pair
	Done            [3]func(error) // gives a trial's place back; nil where this is no trial
	Outcome         [2]error       // by role
	Legs            uint8          // that have ended
	Refused         Avoid          // who did not let the request in, after a refusal
	Begun           [3]bool        // trials that were over with the first token, by the places of Epoch
}
