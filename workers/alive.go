package workers

import "time"

// Looked reports whether each worker has been looked at, and so whether it is
// known of each if it is ready or why not.
func (r *Registry) Looked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all {
		if w.learnt == 0 && !w.removed {
			return false
		}
	}
	return true
}

// Alive returns when the registry does what a request needs: it leases a pair
// that is nobody's and ends the leases. It depends on no worker, and waits for no
// room; where it does not return, no request is begun either.
func (r *Registry) Alive() {
	prefill, decode := &Worker{Spec: Spec{Role: Prefill}}, &Worker{Spec: Spec{Role: Decode}}
	prefill.load.Worker, decode.load.Worker = prefill, decode
	var pair Pair
	r.mu.Lock()
	r.now = time.Now()
	r.leaseLocked(&pair, &prefill.load, &decode.load)
	r.mu.Unlock()
	for _, l := range [...]*Lease{&pair.Prefill, &pair.Decode} {
		l.done.Store(true)
		r.release(l)
	}
}
