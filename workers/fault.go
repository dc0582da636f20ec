package workers

import "time"

// A FaultKind says whom a leg's failure speaks against.
type FaultKind uint8

// The kinds.
const (
	// Busy is backpressure, and no fault: the engine has enough to do (429, 503).
	Busy FaultKind = iota

	// Unreachable is a connection that could not be made, was reset, or went
	// silent for good.
	Unreachable

	// Failed is the worker's own failure: a 5xx with a stated reason, an answer
	// that makes no sense, none in time, one that broke off or ended early.
	Failed

	// HandOff is a transfer that failed, or a decode's 500 after a hand-off
	// that does not say why: the pair's, until it shows whose.
	HandOff
)

// String returns the kind's name, as in logs and metrics.
func (k FaultKind) String() string {
	switch k {
	case Busy:
		return "busy"
	case Unreachable:
		return "unreachable"
	case HandOff:
		return "handoff"
	case Failed:
	}
	return "failed"
}

// A Fault is the outcome of a leg that says something against its worker, or
// against the pair.
type Fault struct {
	Kind FaultKind
	Wait time.Duration // Busy: the engine's Retry-After; 0 if it gave none
	Err  error         // what happened, for logs
}

// Error implements error.
func (f *Fault) Error() string {
	if f.Err == nil {
		return f.Kind.String()
	}
	return f.Kind.String() + ": " + f.Err.Error()
}

// Unwrap returns what happened.
func (f *Fault) Unwrap() error { return f.Err }
