package router

import (
	"context"
	"errors"
	"net/http"

	"pdrouter/exchange"
	"pdrouter/metrics"
	"pdrouter/workers"
)

// outcome returns the error that the client is told, if any.
func (a *attempt) outcome() error {
	a.mu.Lock()
	first := a.first
	a.mu.Unlock()
	delivered := a.delivered && a.call.w.begun() // a whole stream may have been held when the attempt failed
	switch {
	case delivered && a.final != nil:
		return a.final // which the engine itself has told
	case delivered:
		return nil
	case drained(a.ctx):
		return shuttingDown()
	case a.call.r.Context().Err() != nil || errors.Is(context.Cause(a.ctx), errClientGone):
		return errClientGone
	case first != nil:
		return first
	case errors.Is(context.Cause(a.ctx), errTimeout):
		return &Error{Status: http.StatusGatewayTimeout, Code: "request_timeout", Message: "The engines did not answer in time.", Blameless: true}
	default:
		return nil
	}
}

// end ends a leg's lease with what the leg says about its worker. A 429 and a
// 503 of an engine are no faults: it has enough to do.
func (a *attempt) end(l *workers.Lease, role workers.Role, err error) {
	e, isError := errors.AsType[*Error](err)
	outcome, label := err, metrics.LegFailed
	switch {
	case err == nil || isError && (e.Blameless || e.Status < 500 || e.Status == http.StatusServiceUnavailable):
		outcome, label = nil, metrics.LegOK
	case !isError:
		outcome, label = context.Canceled, metrics.LegCanceled
	}
	a.done[role] = true
	l.Done(outcome)
	a.h.met.LegEnded(role.String(), l.Worker.URL, label)
}

// legFailed classifies what went wrong between us and a worker. It returns an
// *Error, or the context's error if the leg was ended by us: ctx is asked, not
// err, because a cancelled leg fails in many ways.
func (a *attempt) legFailed(role workers.Role, err error) error {
	x, isExchange := errors.AsType[*exchange.Error](err)
	a.reached[role] = !isExchange || x.Phase != exchange.Dial
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	return brokenOff(role, err)
}

// brokenOff returns the error for what went wrong between us and a worker, if
// it was not we who ended it.
func brokenOff(role workers.Role, err error) *Error {
	x, isExchange := errors.AsType[*exchange.Error](err)
	e := &Error{
		Status: http.StatusBadGateway, Code: role.String() + "_request_failed", Leg: role.String(), Err: err,
		Message: "The " + role.String() + " engine could not be reached or broke off.",
	}
	switch {
	case errors.Is(err, errMemory):
		e.Status, e.Code, e.RetryAfter, e.Blameless = http.StatusServiceUnavailable, "overloaded", "1", true
		e.Message = "Too many large answers are held at this moment. Try again shortly."
	case errors.Is(err, exchange.ErrTooManyConnections):
		e.Status, e.RetryAfter, e.Blameless = http.StatusServiceUnavailable, "1", true
		e.Message = "Too many requests are under way on the " + role.String() + " engine."
	case isExchange && x.Timeout:
		e.Status, e.Message = http.StatusGatewayTimeout, "The "+role.String()+" engine did not answer in time."
	case isExchange:
		e.Blameless = x.Stale
	}
	return e
}

// isStale reports whether err ended an attempt that says nothing about
// anybody: a pooled connection was closed under it. Another attempt is due.
func isStale(err error) bool {
	x, ok := errors.AsType[*exchange.Error](err)
	return ok && x.Stale
}
