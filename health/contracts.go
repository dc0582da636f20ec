package health

import (
	"time"

	"pdrouter/workers"
)

// A Registry is what this package needs of a workers.Registry. Its methods are
// called by many goroutines, never under a lock that Permit, Ended or a reader
// of ours takes for a request that succeeds; they must not call back.
type Registry interface {
	// Statuses returns every worker as it is now.
	Statuses() []workers.Status

	// Bar keeps w from being leased until a time, with a reason for people. A
	// later bar of the same cause takes the place of an earlier one; the zero
	// time lifts it.
	Bar(w *workers.Worker, c workers.Cause, until time.Time, reason string)

	// BarPair keeps two workers from being leased together.
	BarPair(prefill, decode *workers.Worker, until time.Time)

	// Complete adds what the bootstrap server of w told to what is known of w,
	// where that says nothing: 0 and empty are not told.
	Complete(w *workers.Worker, pageSize int, dtype string)
}
