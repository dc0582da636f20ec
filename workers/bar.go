package workers

import (
	"slices"
	"time"
)

// A Cause says why a worker or a pair is barred.
type Cause uint8

// The causes. Each has its own bar, so that one which ends leaves the others.
const (
	NoCause      Cause = iota // not barred
	Backpressure              // the engine has enough to do
	Breaking                  // its breaker is open
	Probing                   // its probes fail
	Stalled                   // it lives, and makes no progress
	causes
)

// String returns the cause's name, as in logs and metrics.
func (c Cause) String() string {
	return [causes]string{"none", "backpressure", "breaker", "probes", "stalled"}[c]
}

// Forever is when a bar ends that only its maker lifts.
func Forever() time.Time { return time.Unix(1<<40, 0) }

// A Bar keeps a worker from being leased until a time. One whose time has
// passed is no bar, so nobody has to lift it.
type Bar struct {
	Cause  Cause
	Until  time.Time
	Reason string
}

// A pairBar keeps two workers from being leased together.
type pairBar struct {
	prefill, decode *Worker
	until           time.Time
}

// Bar bars w until a time, in place of an earlier bar of the same cause. The
// zero time lifts it. Whoever waits in Lease for what is lifted goes on.
func (r *Registry) Bar(w *Worker, c Cause, until time.Time, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := w.barred
	w.bars = slices.DeleteFunc(w.bars, func(b Bar) bool { return b.Cause == c })
	if !until.IsZero() {
		w.bars = append(w.bars, Bar{c, until, reason})
	}
	w.barred, w.refused = time.Time{}, time.Time{}
	for _, b := range w.bars {
		w.barred = later(w.barred, b.Until)
		if b.Cause != Backpressure {
			w.refused = later(w.refused, b.Until)
		}
	}
	// Who waits for backpressure to end has to know of what ends it, and of
	// what makes it pointless to wait.
	if w.barred.Before(before) || c != Backpressure {
		r.serveAllLocked()
	}
}

// BarPair bars a pair until a time, in place of an earlier bar of it. The zero
// time lifts it.
func (r *Registry) BarPair(prefill, decode *Worker, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pairBars = slices.DeleteFunc(r.pairBars, func(b pairBar) bool { return b.prefill == prefill && b.decode == decode })
	if !until.IsZero() && !prefill.removed && !decode.removed {
		r.pairBars = append(r.pairBars, pairBar{prefill, decode, until})
	}
	r.serveAllLocked()
}

// barsLocked returns the bars of w in force, by cause.
func (w *Worker) barsLocked(now time.Time) []Bar {
	var bars []Bar
	for _, b := range w.bars {
		if b.Until.After(now) {
			bars = append(bars, b)
		}
	}
	slices.SortFunc(bars, func(a, b Bar) int { return int(a.Cause) - int(b.Cause) })
	return bars
}

// barLocked returns the bar of w that ends last: as long as it is in force, w
// is barred.
func (w *Worker) barLocked() Bar {
	var last Bar
	for _, b := range w.bars {
		if b.Until.After(last.Until) {
			last = b
		}
	}
	return last
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
