package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"pdrouter/exchange"
	"pdrouter/metrics"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// maxStale is how many attempts may be lost because a pooled connection was
// closed under them. Nothing was wrong with anybody, and each one empties the
// pool of a connection that was no good, so it is not one of the retries that
// an operator counts.
const maxStale = 4

// Retries holds what an operator may set about trying a request again, on other
// workers. It is done only before anything of the answer has been sent (I4).
type Retries struct {
	// Attempts is how many attempts there are in all. Default 5
	// (--retry-max-retries).
	Attempts int

	// The wait before the second attempt, which grows by Multiplier for each
	// further one up to MaxBackoff, and of which Jitter, in both directions,
	// is left to chance. Defaults 50 ms, 1.5, 30 s and 0.2
	// (--retry-initial-backoff-ms, --retry-backoff-multiplier,
	// --retry-max-backoff-ms, --retry-jitter-factor).
	Backoff    time.Duration
	Multiplier float64
	MaxBackoff time.Duration
	Jitter     float64
}

// validate reports every fault of r.
func (r Retries) validate() []error {
	var faults []error
	if r.Attempts < 1 {
		faults = append(faults, fmt.Errorf("retry-max-retries: must be at least 1, is %d (it counts the first attempt)", r.Attempts))
	}
	if r.Backoff < 0 || r.MaxBackoff < r.Backoff {
		faults = append(faults, fmt.Errorf("retry-max-backoff-ms: must not be below retry-initial-backoff-ms, is %v and %v", r.MaxBackoff, r.Backoff))
	}
	if !(r.Multiplier >= 1) {
		faults = append(faults, fmt.Errorf("retry-backoff-multiplier: must be at least 1, is %v", r.Multiplier))
	}
	if !(r.Jitter >= 0 && r.Jitter <= 1) {
		faults = append(faults, fmt.Errorf("retry-jitter-factor: must be between 0 and 1, is %v", r.Jitter))
	}
	return faults
}

// wait returns the wait before the next attempt, after so many.
func (r Retries) wait(attempts int) time.Duration {
	d := float64(r.Backoff)
	for range attempts - 1 {
		d = min(d*r.Multiplier, float64(r.MaxBackoff))
	}
	return time.Duration(d * (1 + r.Jitter*(2*rand.Float64()-1)))
}

// A trial is a request on its way from one pair to the next.
type trial struct {
	h     *Handler
	call  *call
	req   *transfer.Request
	need  workers.Need
	pair  workers.Pair
	tries int // attempts, but for those that were lost to a stale connection
	stale int // those
}

// runAttempts runs the request on one pair, and as long as it may help on
// others. An open stream waits here below: what needs much of the stack is done
// in functions that have returned by then.
func (h *Handler) runAttempts(c *call, req *transfer.Request) error {
	t := h.newTrial(c, req)
	defer h.freePrint(c)
	var last *Error
	for {
		if err := t.lease(last); err != nil {
			return err
		}
		err := h.attempt(c, req, &t.pair)
		c.recordOver(err)
		if last = t.again(err); last == nil {
			return err
		}
		if t.isLost(last) {
			c.rec.Again()
			continue
		}
		if err := t.pause(last); err != nil {
			return err
		}
	}
}

//go:noinline
func (h *Handler) newTrial(c *call, req *transfer.Request) *trial {
	t := &trial{h: h, call: c, req: req, need: h.need(c, req)}
	t.recordNeed()
	h.budget.earn()
	return t
}

// lease waits for a pair. It returns the error to end with if there is none;
// last is what the attempt before came to.
//
//go:noinline
func (t *trial) lease(last *Error) error {
	asked := time.Now()
	t.need.Explain.Reset()
	ctx := t.call.r.Context()
	err := t.h.registry.Lease(ctx, t.need, &t.pair)
	waited := time.Since(asked)
	t.countWait(waited, err)
	switch {
	case err == nil:
	case drained(ctx):
		return shuttingDown()
	case last != nil && ctx.Err() == nil:
		return t.gaveUp(last) // it says more than that nobody is left
	default:
		return err
	}
	t.recordLease(asked.Add(waited), waited)
	return nil
}

// countWait counts how long the request waited for a pair, and what came of it.
func (t *trial) countWait(waited time.Duration, err error) {
	met, lacked, end := t.h.met, t.pair.Lacked, metrics.WaitLeft
	if err == nil {
		met.Leased(waited)
		end = metrics.WaitAdmitted
	}
	if shed, ok := errors.AsType[*workers.ShedError](err); ok {
		met.Shed(shed.Shortage.String(), shed.TimedOut)
		lacked, end = shed.Shortage, metrics.WaitShed
	}
	if came, known := cameOut(err); known && t.tries+t.stale == 0 {
		met.Admission(Class(t.need.Class).String(), came)
	}
	if t.pair.Waited {
		met.Waited(lacked.String(), end, waited)
	}
}

// cameOut returns what became of a request that asked for a pair. Of one for
// which there is none it is not said.
func cameOut(err error) (end metrics.Admission, known bool) {
	shed, isShed := errors.AsType[*workers.ShedError](err)
	switch {
	case err == nil:
		return metrics.Admitted, true
	case isShed && shed.TimedOut:
		return metrics.RejectedTimeout, true
	case isShed:
		return metrics.RejectedFull, true
	case errors.Is(err, context.Canceled):
		return metrics.ClientCancelled, true
	default:
		return "", false
	}
}

// again returns err if it may be another pair's turn, else nil.
func (t *trial) again(err error) *Error {
	e, failed := errors.AsType[*Error](err)
	if !failed || !e.Again || t.call.w.begun() || t.call.r.Context().Err() != nil {
		return nil
	}
	return e
}

// isLost reports whether the attempt was lost to a stale connection, and is made
// once more, with nobody left out and nothing spent.
func (t *trial) isLost(e *Error) bool {
	if !isStale(e) || t.stale == maxStale-1 {
		return false
	}
	t.stale++
	t.h.met.Resent()
	return true
}

// pause leaves out who failed, and waits before the next attempt. It returns
// the error to end with if there is to be none.
func (t *trial) pause(e *Error) error {
	if t.tries++; t.tries >= t.call.cfg.Retries.Attempts {
		return t.gaveUp(e)
	}
	t.avoid(e)
	ctx := t.call.r.Context()
	if !t.h.budget.spend(ctx) {
		t.h.met.RetryDenied()
		return t.gaveUp(e)
	}
	wait := t.call.cfg.Retries.wait(t.tries)
	t.h.met.Retried(endpointLabel(t.req.Endpoint()), t.tries, wait)
	t.call.rec.Again()
	if !sleep(ctx, wait) {
		return errClientGone
	}
	return nil
}

// avoid leaves the worker at fault out of the next attempt, or the pair, if that
// is at fault.
func (t *trial) avoid(e *Error) {
	prefill, decode := t.pair.Prefill.Worker, t.pair.Decode.Worker
	var out workers.Avoid
	switch {
	case e.Fault != nil && e.Fault.Kind == workers.HandOff:
		out = workers.Avoid{Prefill: prefill, Decode: decode}
	case e.Leg == workers.Prefill.String():
		out.Prefill = prefill
	default:
		out.Decode = decode
	}
	t.need.Avoid = append(t.need.Avoid, out)
}

// gaveUp returns the error of the last attempt, which is the one that the client
// is told, with how many there were.
func (t *trial) gaveUp(e *Error) *Error {
	if t.tries < 2 {
		return e
	}
	t.h.met.RetriesExhausted(endpointLabel(t.req.Endpoint()))
	told := *e
	told.Message = fmt.Sprintf("%s It was tried %d times.", e.Message, t.tries)
	return &told
}

// sleep waits, and reports false if ctx ends earlier.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isStale reports whether err ended an attempt that says nothing about
// anybody: a pooled connection was closed under it. Another attempt is due.
func isStale(err error) bool {
	x, ok := errors.AsType[*exchange.Error](err)
	return ok && x.Stale
}
