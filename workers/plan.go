package workers

import "time"

// A Prompt is what Choosers know of a request's prompt.
type Prompt struct {
	// Chain has a hash for each whole block of the prompt; each covers all
	// blocks before it too. It must not change while the request is open.
	Chain []uint64

	Block int // length of a block, in bytes; 0: what the Chooser has now

	Bytes int // of the whole prompt
}

// Matches is how much of one prompt each worker is believed to hold. A Looker
// fills it in, and a Chooser brings up to date what has changed since. Its
// memory may be used again; it belongs to one request at a time.
type Matches struct {
	Blocks   []int32  // by seat
	Versions []uint64 // of what was looked at; 0: nothing was
}

// Reset forgets what was looked up, for another prompt.
func (m *Matches) Reset() { m.Blocks, m.Versions = m.Blocks[:0], m.Versions[:0] }

// A Looker is a Chooser that can look a prompt up beforehand, without any
// lock, to make its choices short.
type Looker interface {
	// BlockBytes returns how long the blocks of a Prompt are to be. It may be
	// another length later; a Prompt says which it was made with.
	BlockBytes() int

	Look(prompt Prompt, m *Matches)
}

// A Planner is a Chooser that may keep requests waiting, so that a worker gets
// its next one shortly before it runs dry.
type Planner interface {
	Chooser

	// Next picks one of the requests that wait, and a pair for it. There is at
	// least one of them and one pool; the pools are those that any of them may
	// use. If the grant is none, Next wants to be called again at wake, or
	// earlier if a request came, a leg ended or the pools changed. Else the
	// caller counts the leases, takes the request off waiting and calls again.
	//
	// Not all workers have room for all requests, see Load.HasRoom: a grant is
	// of two that have.
	//
	// It is called under the registry's lock, as Choose is. It keeps none of
	// its arguments.
	Next(now time.Time, waiting []*Waiter, pools []Pool) (grant Grant, wake time.Time)
}

// A Waiter is a request that waits for its pair. Since must not change.
type Waiter struct {
	Need  Need
	Since time.Time

	// Rank says who goes first: the lower does, by class and by what its tenant
	// has been served. Among equals the Planner decides.
	Rank int

	of *waiter
}

// A Grant gives one of the requests that wait a pair.
type Grant struct {
	Waiter int // its place among them; -1: none is granted now
	Choice
}

// NoGrant is what Next returns when all go on waiting.
func NoGrant() Grant { return Grant{Waiter: -1} }

// An Expectation is what a Chooser expects of the prefill leg that it chose a
// worker for. It is given back to the Learner when the leg has ended.
type Expectation struct {
	Ticket uint64        // the leg's number on that worker; 0: nothing is expected
	Blocks int           // of the prompt's, believed to be in the worker's cache
	Most   int           // of them, in that of the worker which holds most and could be chosen; 0: none holds more than what nearly all prompts begin with; below 0: it was no reason
	Wait   time.Duration // behind other legs
	Work   time.Duration // of the leg itself
}

// A Prefilled is what became of a prefill leg.
type Prefilled struct {
	At     time.Time
	Prompt Prompt
	Expect Expectation

	// OK is whether the engine computed the prompt. If it did not, nothing is
	// learnt from it.
	OK bool

	// Tokens are those of the prompt, and Cached those of them that the
	// prefill engine says it had in its cache. Below 0: it does not say.
	Tokens, Cached int
}

// A Learner is a Chooser that learns from what becomes of its choices. Its
// methods may be called by any goroutine, and are called outside the
// registry's lock.
type Learner interface {
	// Ended tells of a prefill leg with an Expectation, once.
	Ended(seat int, p Prefilled)

	// Reported tells of a new report of the worker in a seat.
	Reported(seat int, r Report)

	// Flushed says that a worker's cache is empty now: it was flushed, or the
	// engine was started again.
	Flushed(seat int)

	// Gone says that a worker has left its seat. The seat may be given to
	// another one.
	Gone(seat int)
}
