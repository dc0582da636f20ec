package workers

// A Cause says why a worker or a pair is barred.
type Cause uint8

// The causes. Each has its own bar, so that one which ends leaves the others.
const (
	NoCause      Cause = iota // not barred
	Backpressure              // the engine has enough to do
	Breaking                  // its breaker is open
	Probing                   // its probes fail
	Stalled                   // it lives, and makes no progress
)
