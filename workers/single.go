package workers

import (
	"context"
	"errors"
	"time"
)

// A Single says which worker LeaseOne shall lease.
type Single struct {
	Role    Role
	Model   string // empty: any
	Dialect string // empty: any

	// First asks for the first one in the order of the configuration, so that
	// asking twice asks the same one. Else it is the one that has least to do.
	First bool

	// Avoid is left out as long as there is another one.
	Avoid *Worker
}

// LeaseOne leases one worker, for a request that is not handed off, or says why
// there is none. It does not wait. A worker that fits no other one is leased
// too, one that is barred only if there is no other. What comes of it is not
// judged: that it answers one page says little about its hand-offs.
func (r *Registry) LeaseOne(ctx context.Context, want Single) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *Load
	for _, w := range r.all {
		if want.fitsLocked(w) && (best == nil || want.prefersLocked(&w.load, best, now)) {
			best = &w.load
		}
	}
	if best != nil {
		lease := &Lease{}
		r.countLocked(lease, best, nil)
		return lease, nil
	}
	if err := r.whyNoneLocked(want.Model); errors.Is(err, ErrUnknownModel) {
		return nil, err
	}
	return nil, &NoneError{Role: want.Role}
}

// fitsLocked reports whether w may be leased and is what is wanted.
func (s Single) fitsLocked(w *Worker) bool {
	return w.Role == s.Role && w.state() == Ready && w.facts.serves(s.Model) && (s.Dialect == "" || s.Dialect == w.facts.Dialect)
}

// prefersLocked reports whether l is a better choice than one before it.
func (s Single) prefersLocked(l, other *Load, now time.Time) bool {
	out, otherOut := s.outLocked(l.Worker, now), s.outLocked(other.Worker, now)
	if out != otherOut {
		return otherOut
	}
	return !s.First && l.before(other)
}

// outLocked reports whether w is taken only if there is no other.
func (s Single) outLocked(w *Worker, now time.Time) bool { return w == s.Avoid || w.barred.After(now) }

// before reports whether l has less to do than other, or as much and was leased
// longer ago.
func (l *Load) before(other *Load) bool {
	if l.InFlight != other.InFlight {
		return l.InFlight < other.InFlight
	}
	return l.Picked < other.Picked
}
