package workers

import (
	"context"
	"slices"
	"time"
)

const (
	// maxSeen bounds how many requests for one model a Planner sees at a time:
	// what a plan costs grows with them.
	maxSeen = 512

	// overtaking is for how long requests that have room may pass one that has
	// none. Then a decode worker is kept for it, or it would wait for ever.
	overtaking = 5 * time.Second
)

// A waiter is a request in Lease that has no pair yet. It is used again.
type waiter struct {
	Waiter

	pair    *Pair // where its leases go
	matches Matches
	looked  *choosing  // with whom they were looked up
	granted chan error // gets one value: nil, the leases are granted, or why there are none

	group          *group // in the line; nil: it is not there
	before, behind *waiter
}

// A queue is the requests for one model that have no pair yet. They wait
// because there is no room for them, or a Planner keeps them, or for
// backpressure to end. Whatever may change their lot serves the queue anew; none
// of them looks by itself.
type queue struct {
	model string
	line  line
	tried []*waiter // those that had a pair before: each goes as soon as there is one
	lacks Shortage  // what those in line wait for
	flow  flow      // of those in line
	kept  *Load     // a decode worker that is kept for one of them; nil: none is
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
	if err := r.enterLocked(w); err != nil {
		r.mu.Unlock()
		return err
	}
	r.mu.Unlock()
	select {
	case err := <-w.granted:
		return err
	case <-ctx.Done():
	}
	r.mu.Lock()
	left := r.queues[w.Need.Model].leave(w)
	if left {
		r.serveAllLocked() // it may have been in the way
	}
	r.mu.Unlock()
	if !left {
		if err := <-w.granted; err == nil {
			r.takeBack(w.pair)
		}
	}
	return ctx.Err()
}

// enterLocked puts w in the queue of its model and serves it. It returns why w
// may not wait, if it may not.
func (r *Registry) enterLocked(w *waiter) error {
	if w.looked != r.chosen.Load() {
		w.Need.Matches = nil // another one chooses than a moment ago
	}
	q := r.queueLocked(w.Need.Model)
	if q == nil {
		return r.whyNoneLocked(w.Need.Model)
	}
	w.Need.habits = r.habitsLocked(w.Need.Model)
	if len(w.Need.Avoid) > 0 {
		q.tried = append(q.tried, w)
		r.serveLocked(q, w.Need.At)
		return nil
	}
	q.line.enter(w)
	r.serveLocked(q, w.Need.At)
	if w.group == nil {
		return nil
	}
	w.pair.Waited, w.pair.Lacked = true, q.lacks
	if most, _ := r.cfg.Admission.most(q.lacks); q.line.waiting > most {
		out := q.line.spared()
		q.leaveLine(out)
		out.granted <- q.shed(false, w.Need.At)
	}
	return nil
}

// queueLocked returns the queue of a model; nil if there is no pair for it.
func (r *Registry) queueLocked(model string) *queue {
	q := r.queues[model]
	if q == nil && len(r.pools[model]) > 0 {
		q = &queue{model: model, line: line{tenants: &r.tenants, byKey: map[groupKey]*group{}}}
		q.timer = time.AfterFunc(time.Hour, func() { r.wake(q) })
		q.timer.Stop()
		r.queues[model] = q
	}
	return q
}

// leave takes w out of q. It reports false if w was answered before.
func (q *queue) leave(w *waiter) bool {
	if q == nil {
		return false
	}
	if w.group != nil {
		q.leaveLine(w)
		return true
	}
	i := slices.Index(q.tried, w)
	if i >= 0 {
		q.tried = slices.Delete(q.tried, i, i+1)
	}
	return i >= 0
}

func (q *queue) len() int { return q.line.waiting + len(q.tried) }

// wake serves a queue when it was to be served again.
func (r *Registry) wake(q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serveLocked(q, time.Now())
}

// serveAllLocked serves all queues: the fleet has changed, or a leg has ended.
// The one whose first request comes first is served first.
func (r *Registry) serveAllLocked() {
	order := r.scratch.queues[:0]
	for model, q := range r.queues {
		if q.len() > 0 {
			order = append(order, q)
		} else if len(r.pools[model]) == 0 {
			delete(r.queues, model)
		}
	}
	if r.scratch.queues = order; len(order) == 0 {
		return
	}
	if len(order) > 1 {
		slices.SortFunc(order, compareQueues)
	}
	now := time.Now()
	for _, q := range order {
		r.serveLocked(q, now)
	}
}

// serveLocked grants what may be granted of q now, refuses what has waited too
// long, and sets its timer for the rest.
func (r *Registry) serveLocked(q *queue, now time.Time) {
	r.now = now
	pools := r.pools[q.model]
	if len(pools) == 0 {
		q.fail(r.whyNoneLocked(q.model))
		return
	}
	again := earlier(r.serveTriedLocked(q, pools, now), r.serveLineLocked(q, pools, now))
	again = earlier(again, r.expireLocked(q, now))
	most, _ := r.cfg.Admission.most(q.lacks)
	q.flow.press(now, 2*q.line.waiting > most)
	if !again.IsZero() && q.len() > 0 {
		q.timer.Reset(again.Sub(now))
	}
}

// serveTriedLocked gives those that had a pair before another one. It returns
// when to look again; zero: not before something changes.
func (r *Registry) serveTriedLocked(q *queue, pools []Pool, now time.Time) (again time.Time) {
	rest := q.tried[:0]
	for _, w := range q.tried {
		end := w.Need.At.Add(r.cfg.Admission.QueueTimeout)
		granted, until, err := r.chooseLocked(w, pools, now) // once granted, w is another's
		if !granted && err == nil && !end.After(now) {
			err = q.shed(true, now)
		}
		again = earlier(again, end)
		switch {
		case granted:
		case err != nil:
			w.granted <- err
		default:
			again = earlier(again, until)
			rest = append(rest, w)
		}
	}
	clear(q.tried[len(rest):])
	q.tried = rest
	return again
}

// chooseLocked lets the Chooser choose a pair for w, if there is one that has
// room. Else it returns when to look again, or why that is of no use.
func (r *Registry) chooseLocked(w *waiter, pools []Pool, now time.Time) (granted bool, again time.Time, err error) {
	if left := r.candidatesLocked(pools, &w.Need, now); len(left) > 0 {
		w.Need.At = now
		r.grantLocked(w, left, r.chosen.Load().Choose(w.Need, left))
		return true, time.Time{}, nil
	}
	if all := r.candidatesLocked(pools, nil, now); len(all) > 0 {
		return false, now.Add(roomAgain), nil
	}
	again, err = r.whyBarredLocked(pools, now)
	return false, again, err
}

// serveLineLocked grants as many of those in line as may go. It returns when to
// look again.
func (r *Registry) serveLineLocked(q *queue, pools []Pool, now time.Time) (again time.Time) {
	for q.line.waiting > 0 {
		open, at := r.gateLocked(now)
		if !open {
			q.lacks = OfSlots
			return at
		}
		var granted bool
		var err error
		if r.chosen.Load().planner != nil {
			granted, again, err = r.planLocked(q, pools, now)
		} else {
			granted, again, err = r.nextLocked(q, pools, now)
		}
		if err != nil {
			q.failLine(err)
		}
		if !granted {
			return again
		}
	}
	return time.Time{}
}

// gateLocked reports whether one more request may be begun, and if not, when to
// look again; zero: when one has ended.
func (r *Registry) gateLocked(now time.Time) (open bool, again time.Time) {
	a := &r.cfg.Admission
	if a.MaxInFlight > 0 && r.open >= a.MaxInFlight {
		return false, time.Time{}
	}
	if a.Rate > 0 {
		return r.meter.pass(a.Rate, now)
	}
	return true, time.Time{}
}

// planLocked lets the Planner grant one of those in line.
func (r *Registry) planLocked(q *queue, pools []Pool, now time.Time) (granted bool, again time.Time, err error) {
	left := r.candidatesLocked(pools, nil, now)
	if len(left) == 0 {
		q.lacks = barred(pools, now)
		again, err = r.whyBarredLocked(pools, now)
		return false, again, err
	}
	seen := q.line.front(r.scratch.seen[:0], maxSeen)
	r.scratch.seen = seen
	q.lacks = OfPrefill
	q.keep(seen, left, now)
	grant, wake := r.chosen.Load().planner.Next(now, seen, left)
	if grant.Waiter < 0 {
		if short, is := shortage(left, &seen[0].Need); is {
			q.lacks = short
		}
		if q.lacks == OfDecode {
			wake = earlier(wake, now.Add(roomAgain))
		}
		return false, wake, nil
	}
	w := seen[grant.Waiter].of
	r.admitLocked(q, w, left, grant.Choice, now)
	return true, time.Time{}, nil
}

// nextLocked grants the first in line that has room.
func (r *Registry) nextLocked(q *queue, pools []Pool, now time.Time) (granted bool, again time.Time, err error) {
	seen := q.line.front(r.scratch.seen[:0], maxSeen)
	r.scratch.seen = seen
	all := r.candidatesLocked(pools, nil, now)
	if len(all) == 0 {
		q.lacks = barred(pools, now)
		again, err = r.whyBarredLocked(pools, now)
		return false, again, err
	}
	q.keep(seen, all, now)
	q.lacks, _ = shortage(all, &seen[0].Need)
	for i := range seen {
		w := seen[i].of
		if left := r.candidatesLocked(pools, &w.Need, now); len(left) > 0 {
			w.Need.At = now
			r.admitLocked(q, w, left, r.chosen.Load().Choose(w.Need, left), now)
			return true, time.Time{}, nil
		}
	}
	return false, now.Add(roomAgain), nil
}

// admitLocked grants w, which is in line, its leases.
func (r *Registry) admitLocked(q *queue, w *waiter, pools []Pool, c Choice, now time.Time) {
	q.leaveLine(w)
	if r.cfg.Admission.Rate > 0 {
		r.meter.take()
	}
	q.flow.grant(now)
	r.tenants.serve(w.Need.Tenant, w.Need.habits.promptTokens(w.Need.Prompt.Bytes))
	r.grantLocked(w, pools, c)
}

// fail answers everyone in q that there is no pair.
func (q *queue) fail(err error) {
	for _, w := range q.tried {
		w.granted <- err
	}
	clear(q.tried)
	q.tried = q.tried[:0]
	q.failLine(err)
}

func (q *queue) failLine(err error) {
	for w := q.line.oldest(); w != nil; w = q.line.oldest() {
		q.leaveLine(w)
		w.granted <- err
	}
}

// compareQueues orders queues by whose first request comes first.
func compareQueues(a, b *queue) int {
	switch {
	case len(a.line.groups) == 0:
		return -1
	case len(b.line.groups) == 0:
		return 1
	default:
		return compareGroups(slices.MinFunc(a.line.groups, compareGroups), slices.MinFunc(b.line.groups, compareGroups))
	}
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
