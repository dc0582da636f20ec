package workers

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnknownModel reports a model that no worker serves, ready or not.
var ErrUnknownModel = errors.New("no worker serves this model")

// A NoneError reports that no pair can be leased: Role has no ready worker, or
// all of them are barred; with Mismatch, the workers that are left do not fit
// one another, or their pairs are barred.
type NoneError struct {
	Role     Role
	Mismatch bool
	Why      string // of a mismatch: in what they differ, with prefill's value first; empty if that is not known

	// Cause is why they are barred, and Until when the first bar ends: zero if
	// that is not known. NoCause: none is ready.
	Cause Cause
	Until time.Time
}

// Error implements error.
func (e *NoneError) Error() string {
	switch {
	case e.Mismatch && e.Cause != NoCause:
		return "no prefill and decode worker may be paired now"
	case e.Mismatch && e.Why != "":
		return "no prefill and decode worker fit one another (" + e.Why + ")"
	case e.Mismatch:
		return "no prefill and decode worker fit one another"
	case e.Cause != NoCause:
		return fmt.Sprintf("every %s worker is left out for now (%s)", e.Role, e.Cause)
	default:
		return fmt.Sprintf("no %s worker is ready", e.Role)
	}
}

// whyNoneLocked returns the error for a model that has no pool.
func (r *Registry) whyNoneLocked(model string) error {
	ready := [2]int{}
	known := model == "" || len(r.pools) == 0
	for _, w := range r.all {
		if w.facts != nil && w.facts.serves(model) {
			known = true
			if w.state() == Ready {
				ready[w.Role]++
			}
		}
	}
	switch {
	case !known:
		return ErrUnknownModel
	case ready[Prefill] == 0:
		return &NoneError{Role: Prefill}
	case ready[Decode] == 0:
		return &NoneError{Role: Decode}
	default:
		return &NoneError{Mismatch: true, Why: r.discordLocked(model)}
	}
}

// whyBarredLocked returns the error for pools of which no pair is left, or
// until when to wait if there is one that only backpressure keeps from use.
func (r *Registry) whyBarredLocked(pools []Pool, now time.Time) (until time.Time, err error) {
	if busy := r.siftLocked(pools, sieve{now: now, busy: true}); len(busy) > 0 {
		var first Bar
		for _, p := range busy {
			first = firstBarLocked(p.Prefill, first, now)
			first = firstBarLocked(p.Decode, first, now)
		}
		return first.Until, nil
	}
	for _, role := range [...]Role{Prefill, Decode} {
		var first Bar
		free := false
		for _, p := range pools {
			side := [...][]*Load{Prefill: p.Prefill, Decode: p.Decode}[role]
			first = firstBarLocked(side, first, now)
			for _, l := range side {
				free = free || !l.Worker.barred.After(now)
			}
		}
		if !free {
			return time.Time{}, (&NoneError{Role: role, Cause: first.Cause}).until(first.Until)
		}
	}
	none := &NoneError{Mismatch: true, Cause: Breaking}
	first := Forever()
	for _, b := range r.pairBars {
		if b.until.Before(first) {
			first = b.until
		}
	}
	return time.Time{}, none.until(first)
}

// firstBarLocked returns the one of first and the bars of loads that ends first.
func firstBarLocked(loads []*Load, first Bar, now time.Time) Bar {
	for _, l := range loads {
		if bar := l.Worker.barLocked(); bar.Until.After(now) && (first.Cause == NoCause || bar.Until.Before(first.Until)) {
			first = bar
		}
	}
	return first
}

// until returns e with the time at which the first bar ends, if it does.
func (e *NoneError) until(t time.Time) error {
	if t.Before(Forever()) {
		e.Until = t
	}
	return e
}
