package router

import (
	"errors"
	"time"

	"pdrouter/metrics"
	"pdrouter/workers"
)

// countHandOff counts what became of the hand-off of an attempt that ended with
// err. Both legs have ended.
func (a *attempt) countHandOff(err error) {
	end := metrics.HandOffFailed
	e, failed := errors.AsType[*Error](err)
	switch {
	case a.prefillFirst() && a.legs[workers.Decode].reached && !a.handOff.HandedOff:
		end = metrics.HandOffMissing
	case drained(a.ctx), err != nil && !failed:
		end = metrics.HandOffLeft
		if a.generated() {
			end = metrics.HandOffDone
		}
	case failed && e.Leg == workers.Prefill.String(): // decode may have computed the prompt itself
		if isRefusal(e) || isStale(e) {
			return
		}
	case err == nil && !a.call.streaming && !a.call.aborted, a.generated():
		end = metrics.HandOffDone
	case failed && (isRefusal(e) || isStale(e)):
		return
	}
	a.h.met.HandOffEnded(a.dialect.Traits().Name, end)
}

// generated reports whether decode had the KV blocks: it sent an event with
// content, and did not end the request with it.
func (a *attempt) generated() bool {
	return !a.firstToken.IsZero() && (!a.call.aborted || a.lastToken.After(a.firstToken))
}

// isRefusal reports whether an engine did not take the request: it is the
// client's fault, or the engine has too much to do. No hand-off was begun.
func isRefusal(e *Error) bool {
	return e.Status < 500 || e.Fault != nil && e.Fault.Kind == workers.Busy
}

// see times the stream whose client is sent its first event with content now.
// That may be later than it came: it was held for prefill's verdict.
func (a *attempt) see(now time.Time) {
	a.call.ttft = now.Sub(a.call.began)
	a.work.Begins(now, a.call.ttft, a.call.id)
	select {
	case <-a.prefilled:
		a.work.HandedOff(a.firstToken.Sub(a.answered))
	default: // let go without it
	}
}
