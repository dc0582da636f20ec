package workers

import "sync/atomic"

// A Lease is the right to send one leg to one worker.
type Lease struct {
	Worker *Worker
	Facts  *Facts // as they were when the lease was granted

	registry *Registry
	done     atomic.Bool
}

// A Pair is the two leases that one attempt runs on. Both must be ended, each
// once.
type Pair struct {
	Dialect         string
	Prefill, Decode *Lease
}

// Done ends the lease, with what the leg says about its worker: nil if the
// worker did its job (a 400 is doing its job), context.Canceled if we cannot
// tell, anything else if it was the worker's fault. A second call panics (I1).
func (l *Lease) Done(outcome error) {
	if l.done.Swap(true) {
		panic("workers: lease of " + l.Worker.ID + " ended twice")
	}
	l.registry.release(l.Worker)
	_ = outcome // package health will judge by it
}
