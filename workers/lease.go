package workers

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// A Lease is the right to send one leg to one worker.
type Lease struct {
	Worker *Worker
	Facts  *Facts // as they were when the lease was granted

	registry *Registry
	permit   *Permit // that of the pair; nil: it is not one of a pair, and not judged
	done     atomic.Bool
}

// A Pair is the two leases that one attempt runs on. Both must be ended, each
// once; then the Pair may be used for another attempt. It must not be copied.
type Pair struct {
	Dialect         string
	Prefill, Decode Lease

	permit Permit
}

// maxPicks bounds how many pairs are offered to the Judge for one lease. What
// it refuses it also bars, and it is avoided from then on, so another one is
// picked the next time if there is one.
const maxPicks = 16

// Lease leases a pair for need, or says why there is none. It waits only for
// backpressure to end: as long as no pair is free, but one would be if its
// engines had less to do.
func (r *Registry) Lease(ctx context.Context, need Need, pair *Pair) error {
	for range maxPicks {
		if err := r.pick(ctx, need, pair); err != nil {
			return err
		}
		if r.judge == nil || r.judge.Permit(&pair.permit, pair.Prefill.Worker, pair.Decode.Worker) {
			return nil
		}
		r.takeBack(pair)
		need.Avoid = append(slices.Clip(need.Avoid), pair.permit.Refused) // its bar may be on its way
	}
	return &NoneError{Mismatch: true, Cause: Breaking}
}

// pick grants the leases of a pair as soon as there is one.
func (r *Registry) pick(ctx context.Context, need Need, pair *Pair) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		wait, changed, err := r.tryPick(need, pair)
		if err != nil || changed == nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// tryPick grants the leases of a pair, or says for how long to wait before the
// next try unless changed is closed earlier.
func (r *Registry) tryPick(need Need, pair *Pair) (wait time.Duration, changed <-chan struct{}, err error) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	pools := r.pools[need.Model]
	if len(pools) == 0 {
		return 0, nil, r.whyNoneLocked(need.Model)
	}
	left := r.candidatesLocked(pools, need, now)
	if len(left) == 0 {
		until, err := r.whyBarredLocked(pools, now)
		if err != nil {
			return 0, nil, err
		}
		return until.Sub(now), r.changedLocked(), nil
	}
	c := r.chooser.Choose(need, left)
	pool := &left[c.Pool]
	pair.Dialect = pool.Dialect
	r.grantLocked(&pair.Prefill, pool.Prefill[c.Prefill], &pair.permit)
	r.grantLocked(&pair.Decode, pool.Decode[c.Decode], &pair.permit)
	return 0, nil, nil
}

func (r *Registry) grantLocked(lease *Lease, l *Load, permit *Permit) {
	r.clock++
	l.InFlight++
	l.Picked = r.clock
	lease.Worker, lease.Facts, lease.registry, lease.permit = l.Worker, l.Worker.facts, r, permit
	lease.done.Store(false)
}

// takeBack ends both leases of a pair that the Judge refused: nobody used them.
func (r *Registry) takeBack(pair *Pair) {
	for _, l := range [...]*Lease{&pair.Prefill, &pair.Decode} {
		l.done.Store(true)
		r.release(l.Worker)
	}
}

// LeasePair leases two workers that were named, or says why it cannot. It does
// not wait. All that keeps a request from the pair keeps this one from it too:
// every bar, and what the Judge says. So it may be the trial of a breaker whose
// time is over, and is nothing sooner.
func (r *Registry) LeasePair(ctx context.Context, prefill, decode *Worker, pair *Pair) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.takePair(prefill, decode, pair, time.Now()); err != nil {
		return err
	}
	if r.judge == nil || r.judge.Permit(&pair.permit, prefill, decode) {
		return nil
	}
	r.takeBack(pair)
	return &NoneError{Mismatch: true, Cause: Breaking}
}

// takePair grants the leases of a pair that was named.
func (r *Registry) takePair(prefill, decode *Worker, pair *Pair, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range [...]*Worker{prefill, decode} {
		if w.state() != Ready {
			return &NoneError{Role: w.Role}
		}
		if bar := w.barLocked(); bar.Until.After(now) {
			return (&NoneError{Role: w.Role, Cause: bar.Cause}).until(bar.Until)
		}
	}
	if !MayPair(prefill.facts, decode.facts) {
		return &NoneError{Mismatch: true, Why: discord(prefill.facts, decode.facts)}
	}
	for _, b := range r.pairBars {
		if b.prefill == prefill && b.decode == decode && b.until.After(now) {
			return (&NoneError{Mismatch: true, Cause: Breaking}).until(b.until)
		}
	}
	pair.Dialect = prefill.facts.Dialect
	r.grantLocked(&pair.Prefill, &prefill.load, &pair.permit)
	r.grantLocked(&pair.Decode, &decode.load, &pair.permit)
	return nil
}

// Began tells, of a decode lease, that the first token has come. It is called
// before Done, once at most.
func (l *Lease) Began() {
	if j := l.registry.judge; j != nil && l.permit != nil {
		j.Began(l.permit)
	}
}

// Done ends the lease, with what the leg says about its worker: nil if the
// worker did its job (a 400 is doing its job), context.Canceled if we cannot
// tell, a *Fault, or anything else if it was the worker's fault. A second call
// panics (I1).
func (l *Lease) Done(outcome error) {
	if l.done.Swap(true) {
		panic("workers: lease of " + l.Worker.ID + " ended twice")
	}
	r, w := l.registry, l.Worker
	if r.judge != nil && l.permit != nil {
		r.judge.Ended(l.permit, w.Role, outcome)
	}
	r.release(w)
}

func (r *Registry) release(w *Worker) {
	r.mu.Lock()
	w.load.InFlight--
	if w.load.InFlight < 0 {
		r.mu.Unlock()
		panic("workers: " + w.ID + " has less than no request under way")
	}
	gone := w.removed && r.forgetLocked(w)
	r.mu.Unlock()
	if gone {
		r.gone(w)
	}
}
