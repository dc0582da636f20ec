package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"pdrouter/workers"
)

// An outcome is what the end of a leg says.
type outcome struct {
	kind  outcomeKind
	fault workers.FaultKind // of failed
	wait  time.Duration     // of tooBusy
	err   error
}

type outcomeKind uint8

const (
	saysNothing outcomeKind = iota // we cancelled it, or cannot tell
	didWell
	tooBusy
	failed  // the worker
	handOff // failed, between the two
)

// classify reads the outcome of a leg. A Fault is looked for first: it may wrap
// the cancellation that it led to.
func classify(err error) outcome {
	if err == nil {
		return outcome{kind: didWell}
	}
	if f, ok := errors.AsType[*workers.Fault](err); ok {
		switch f.Kind {
		case workers.Busy:
			return outcome{kind: tooBusy, wait: f.Wait, err: err}
		case workers.HandOff:
			return outcome{kind: handOff, fault: f.Kind, err: err}
		case workers.Unreachable, workers.Failed:
			return outcome{kind: failed, fault: f.Kind, err: err}
		}
	}
	if errors.Is(err, context.Canceled) {
		return outcome{kind: saysNothing}
	}
	return outcome{kind: failed, fault: workers.Failed, err: err}
}

// judgePair judges two workers together, after both legs have ended. A hand-off
// that failed because one of the two died, failed or was too busy is explained
// by that, and is not the pair's.
func (j *Judge) judgePair(p *workers.Permit, now time.Time) {
	first, second := j.ward(p.Prefill), j.ward(p.Decode)
	a, b := classify(p.Outcome[workers.Prefill]), classify(p.Outcome[workers.Decode])
	switch {
	case a.kind == didWell && b.kind == didWell:
		first.worked(p.Decode)
		second.worked(p.Prefill)
		j.bookPair(p, first, verdict{kind: good})
	case a.kind == failed || b.kind == failed || a.kind == tooBusy || b.kind == tooBusy:
		j.bookPair(p, first, verdict{})
	case b.kind == handOff:
		j.handOffFailed(p, first, second, b, now)
	case a.kind == handOff:
		j.handOffFailed(p, first, second, a, now)
	default:
		j.bookPair(p, first, verdict{})
	}
}

// bookPair books what is no failure.
func (j *Judge) bookPair(p *workers.Permit, first *ward, v verdict) {
	if both := first.pairOf(p.Decode); both != nil {
		book(p, ofPair, both.breaker, v)
	}
}

// handOffFailed charges the pair, and a worker if it is to be suspected.
func (j *Judge) handOffFailed(p *workers.Permit, first, second *ward, o outcome, now time.Time) {
	both := j.makePair(first, p.Decode)
	j.failing.Lock()
	v := verdict{kind: bad, fault: workers.HandOff, err: o.err, last: j.isLastPair(p.Prefill, p.Decode)}
	both.breaker.tell(passOf(p, ofPair), v)
	suspect := suspected(
		first.charge(p.Decode, now, j.cfg.Window), second.charge(p.Prefill, now, j.cfg.Window),
		first, second,
	)
	if suspect != nil && !j.isLast(suspect.worker) {
		j.accuse(suspect, o.err)
	}
	j.failing.Unlock()
	both.out.flush()
	if suspect != nil {
		suspect.breaks.flush()
	}
}

// suspected returns the worker that a failed hand-off speaks against: the one
// that has failed with more partners. When both have failed with as many (one, as
// a rule: each other), it cannot be said whose fault it is, and neither is
// charged: the pairs' own breakers keep the requests away, and one good hand-off
// of either with somebody else decides it.
func suspected(m, n int, first, second *ward) *ward {
	switch {
	case m > n:
		return first
	case n > m:
		return second
	default:
		return nil
	}
}

// charge notes a failed hand-off with a partner, and returns with how many it
// has failed within the window and not worked since.
func (d *ward) charge(partner *workers.Worker, now time.Time, window time.Duration) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w, at := range d.charged {
		if now.Sub(at) > window {
			delete(d.charged, w)
		}
	}
	if len(d.charged) == 0 {
		d.row = 0
	}
	d.charged[partner] = now
	d.row++
	return len(d.charged)
}

// worked notes a hand-off with a partner that worked.
func (d *ward) worked(partner *workers.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.row > 0 {
		delete(d.charged, partner)
		d.row = 0
	}
}

// accuse opens the breaker of a worker whose hand-offs have failed often enough
// in a row, or whose trial one of them was. They are counted apart from its own
// failures: the prefill leg of a failed hand-off was a success as such, and would
// end every row.
func (j *Judge) accuse(d *ward, err error) {
	d.mu.Lock()
	row, partners := d.row, len(d.charged)
	d.mu.Unlock()
	state, _ := d.breaker.look()
	if row < j.cfg.FailureThreshold && state != gobreaker.StateHalfOpen {
		return
	}
	d.breaker.trip(fmt.Sprintf("%s in a row failed, with %d partners, the last: %s", requests(row, "hand-off"), partners, brief(err)))
}

// isLastPair reports whether every other pair that could do what these two do
// has a worker or a breaker against it.
func (j *Judge) isLastPair(prefill, decode *workers.Worker) bool {
	now, statuses := time.Now(), j.registry.Statuses()
	mine := [2]*workers.Facts{factsOf(statuses, prefill), factsOf(statuses, decode)}
	live := [2][]*ward{}
	for i := range statuses {
		s := &statuses[i]
		role := s.Worker.Role
		if d := j.ward(s.Worker); s.State == workers.Ready && replaces(mine[role], &s.Facts) && d.live(now) {
			live[role] = append(live[role], d)
		}
	}
	for _, p := range live[workers.Prefill] {
		for _, d := range live[workers.Decode] {
			same := p.worker == prefill && d.worker == decode
			if both := p.pairOf(d.worker); !same && (both == nil || both.breaker.closed()) {
				return false
			}
		}
	}
	return true
}
