package workers

import (
	"context"
	"slices"
	"time"
)

// maxKept bounds how many requests for one model are left to the Planner: what
// a plan costs grows with them. Those that come when there are as many are sent
// on at once.
const maxKept = 512

// A waiter is a request in Lease that has no pair yet. It is used again.
type waiter struct {
	Waiter

	pair    *Pair // where its leases go
	matches Matches
	granted chan error // gets one value: nil, the leases are granted, or why there are none
}

// A queue is the requests for one model that have no pair yet, in the order in
// which they came. They wait because a Planner keeps them, or for backpressure
// to end. Nobody polls: whatever may change their lot serves the queue anew.
type queue struct {
	model string
	kept  []*waiter // the Planner grants these
	seen  []*Waiter // the same, as it sees them
	rest  []*waiter // each of these is granted as soon as there is a pair
	timer *time.Timer
}

func (r *Registry) newWaiter() any { return &waiter{granted: make(chan error, 1)} }

// await returns when the leases of w are granted, or with the reason why they
// are not.
func (r *Registry) await(ctx context.Context, w *waiter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.Need.At = time.Now()
	if w.Since.IsZero() {
		w.Since = w.Need.At
	}
	r.mu.Lock()
	q := r.queueLocked(w.Need.Model)
	if q == nil {
		defer r.mu.Unlock()
		return r.whyNoneLocked(w.Need.Model)
	}
	r.enterQueueLocked(q, w)
	r.serveLocked(q, w.Need.At)
	r.mu.Unlock()
	select {
	case err := <-w.granted:
		return err
	case <-ctx.Done():
	}
	r.mu.Lock()
	gone := q.leave(w)
	r.mu.Unlock()
	if !gone {
		if err := <-w.granted; err == nil {
			r.takeBack(w.pair)
		}
	}
	return ctx.Err()
}

// queueLocked returns the queue of a model; nil if there is no pair for it.
func (r *Registry) queueLocked(model string) *queue {
	q := r.queues[model]
	if q == nil && len(r.pools[model]) > 0 {
		q = &queue{model: model}
		q.timer = time.AfterFunc(time.Hour, func() { r.wake(q) })
		q.timer.Stop()
		r.queues[model] = q
	}
	return q
}

// enterQueueLocked puts w at the end of q. One that avoids somebody has been
// tried before: it is not kept waiting.
func (r *Registry) enterQueueLocked(q *queue, w *waiter) {
	if r.planner == nil || len(w.Need.Avoid) > 0 || len(q.kept) >= maxKept {
		q.rest = append(q.rest, w)
		return
	}
	q.kept, q.seen = append(q.kept, w), append(q.seen, &w.Waiter)
}

// leave takes w out of q. It reports false if w was answered before.
func (q *queue) leave(w *waiter) bool {
	if i := slices.Index(q.kept, w); i >= 0 {
		q.dropKept(i)
		return true
	}
	i := slices.Index(q.rest, w)
	if i >= 0 {
		q.rest = slices.Delete(q.rest, i, i+1)
	}
	return i >= 0
}

func (q *queue) dropKept(i int) {
	q.kept = slices.Delete(q.kept, i, i+1)
	q.seen = slices.Delete(q.seen, i, i+1)
}

func (q *queue) len() int { return len(q.kept) + len(q.rest) }

// wake serves a queue when it was to be served again.
func (r *Registry) wake(q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serveLocked(q, time.Now())
}

// serveAllLocked serves all queues: the fleet has changed, or a leg has ended.
func (r *Registry) serveAllLocked() {
	for model, q := range r.queues {
		if q.len() > 0 {
			r.serveLocked(q, time.Now())
		}
		if q.len() == 0 && len(r.pools[model]) == 0 {
			delete(r.queues, model)
		}
	}
}

// serveLocked grants what may be granted of q now, and sets its timer for the
// rest.
func (r *Registry) serveLocked(q *queue, now time.Time) {
	pools := r.pools[q.model]
	if len(pools) == 0 {
		q.fail(r.whyNoneLocked(q.model))
		return
	}
	at := earlier(r.serveRestLocked(q, pools, now), r.serveKeptLocked(q, pools, now))
	if !at.IsZero() && q.len() > 0 {
		q.timer.Reset(at.Sub(now))
	}
}

// serveRestLocked gives each request that is not kept its pair. It returns when
// to look again; zero: not before something changes.
func (r *Registry) serveRestLocked(q *queue, pools []Pool, now time.Time) (again time.Time) {
	rest := q.rest[:0]
	for _, w := range q.rest {
		left := r.candidatesLocked(pools, w.Need, now)
		if len(left) > 0 {
			w.Need.At = now
			r.grantLocked(w, left, r.chooser.Choose(w.Need, left))
			continue
		}
		until, err := r.whyBarredLocked(pools, now)
		if err != nil {
			w.granted <- err
			continue
		}
		again = earlier(again, until)
		rest = append(rest, w)
	}
	clear(q.rest[len(rest):])
	q.rest = rest
	return again
}

// serveKeptLocked lets the Planner grant as many of those that it keeps as it
// will. It returns when to look again.
func (r *Registry) serveKeptLocked(q *queue, pools []Pool, now time.Time) (again time.Time) {
	if len(q.kept) == 0 {
		return time.Time{}
	}
	left := r.candidatesLocked(pools, Need{}, now)
	if len(left) == 0 {
		until, err := r.whyBarredLocked(pools, now)
		if err != nil {
			q.failKept(err)
		}
		return until
	}
	for len(q.kept) > 0 {
		grant, wake := r.planner.Next(now, q.seen, left)
		if grant.Waiter < 0 {
			return wake
		}
		w := q.kept[grant.Waiter]
		q.dropKept(grant.Waiter)
		r.grantLocked(w, left, grant.Choice)
	}
	return time.Time{}
}

// fail answers everyone in q that there is no pair.
func (q *queue) fail(err error) {
	for _, w := range q.rest {
		w.granted <- err
	}
	clear(q.rest)
	q.rest = q.rest[:0]
	q.failKept(err)
}

func (q *queue) failKept(err error) {
	for _, w := range q.kept {
		w.granted <- err
	}
	clear(q.kept)
	clear(q.seen)
	q.kept, q.seen = q.kept[:0], q.seen[:0]
}

// Waiting returns how many requests wait for a pair.
func (r *Registry) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, q := range r.queues {
		n += q.len()
	}
	return n
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
