package workers

import "time"

// A Chooser picks the pair for one request. Package policy implements it.
type Chooser interface {
	// Choose returns a pair of one of pools, for which that pool's Fits is
	// true. There is at least one pool, and every worker in it fits at least
	// one of the other role. All of them may serve the request now.
	//
	// Choose is called under the registry's lock: it must not block,
	// allocate, keep its arguments or call back. The loads that it sees count
	// every lease that was granted before.
	Choose(need Need, pools []Pool) Choice
}

// A Need is what a request asks of a pair.
type Need struct {
	Model string // empty: any
	Key   uint64 // groups requests whose prompts begin alike; 0: none

	Prompt  Prompt
	Matches *Matches  // what is known of the prompt; nil: it is looked up as it is needed
	At      time.Time // when the choice is made
	Sticky  uint64    // hash of what the client says belongs together; 0: it says nothing
	Named   bool      // that is a routing key or session, and not all of a user or application

	// Class is the request's priority: the higher goes first. Tenant is whose it
	// is; tenants of one class get an equal share. 0: nobody's.
	Class  int
	Tenant uint64

	// MaxTokens bounds the tokens of an answer. 0: the client does not say.
	MaxTokens int

	// Answers is how many there are, one for each prompt of a batch. 0 is 1.
	Answers int

	// Explain is where the choice is explained; nil: nowhere.
	Explain *Explanation

	// Avoid are left out as long as there is something else.
	Avoid []Avoid

	habits *habits // of its model
	number uint64  // of who waits; 0: nobody does
}

// An Avoid names a worker, or, with both set, a pair.
type Avoid struct{ Prefill, Decode *Worker }

// A Load is a worker as a Chooser sees it.
type Load struct {
	Worker   *Worker
	InFlight int    // leases not yet done
	Picked   uint64 // when it was leased last: larger is later, 0 is never

	// Seat is a small number that no other worker has at the same time, for
	// Choosers to keep tables by.
	Seat int

	// Report is what the worker said of itself last; nil: nothing yet.
	Report *Report

	// Weight is the share that it should get beside one of weight 1. It is
	// above 0, and below 1 while the worker is being warmed.
	Weight float64

	// MostInFlight bounds InFlight; 0: nothing does.
	MostInFlight int

	kept uint64 // the number of the request that it is kept for; 0: for none

	// Space is that of a decode worker. Nil: it has space for everything.
	Space Space

	place, parted int    // among the candidates of one pick, see Pool
	sifted        uint64 // the last sift that let it through
}

// A Space knows a worker's KV cache. Its methods are called under the registry's
// lock.
type Space interface {
	// Has reports whether there is space for one more request.
	Has(need *Need) bool

	// KV returns how many tokens are in use, by what the engine said last and
	// what it was sent since, and how many there are. It is not ok if the engine
	// does not tell.
	KV() (used, capacity float64, ok bool)
}

// HasRoom reports whether the worker has room for one more request.
func (l *Load) HasRoom(need *Need) bool {
	if l.kept != 0 && l.kept != need.number {
		return false
	}
	return (l.MostInFlight == 0 || l.InFlight < l.MostInFlight) && (l.Space == nil || l.Space.Has(need))
}

// A Choice names a pair by position: a pool, and a worker of either role in it.
type Choice struct {
	Pool, Prefill, Decode int

	Expect Expectation
}
