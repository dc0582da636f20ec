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
	switch passed := a.delivered && a.call.w.begun(); { // else it is still held, for nobody
	case passed && a.final != nil:
		return a.final // which the engine itself has told
	case passed:
		return nil
	case drained(a.ctx):
		return shuttingDown()
	case a.call.r.Context().Err() != nil || errors.Is(context.Cause(a.ctx), errClientGone):
		return errClientGone
	case first != nil:
		return first
	case errors.Is(context.Cause(a.ctx), errTimeout):
		return &Error{Status: http.StatusGatewayTimeout, Code: "request_timeout", Message: "The engines did not answer in time."}
	default:
		return nil
	}
}

// end ends a leg's lease with what the leg says about its worker (I1, I7).
func (a *attempt) end(l *leg, err error) {
	outcome := a.judge(l, err)
	label := metrics.LegFailed
	fault, isFault := errors.AsType[*workers.Fault](outcome)
	switch {
	case outcome == nil || isFault && fault.Kind == workers.Busy:
		label = metrics.LegOK
	case isFault && fault.Kind == workers.HandOff:
		label = metrics.LegHandOff
	case !isFault:
		label = metrics.LegCanceled
	}
	if isFault {
		a.countError(l, fault, err)
	}
	l.done = true
	a.h.met.LegEnded(l.role.String(), l.lease.Worker.URL, label) // before the worker may be gone
	l.lease.Done(outcome)
}

// countError counts a leg whose worker failed: with a server error, or without
// an answer.
func (a *attempt) countError(l *leg, fault *workers.Fault, err error) {
	e, isError := errors.AsType[*Error](err)
	if isError && e.Status < http.StatusInternalServerError {
		return // too many requests
	}
	a.h.met.LegFailed(l.role.String(), errors.Is(fault, errNoToken) || isError && e.Status == http.StatusGatewayTimeout)
}

// judge returns the outcome of a leg as its lease takes it. A leg that we
// cancelled says nothing, unless we did so because it was too slow.
func (a *attempt) judge(l *leg, err error) error {
	e, isError := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return nil
	case isError && e.Fault != nil:
		return e.Fault
	case isError && e.Leg != "" && e.Status < 500:
		return nil // the engine refused what it has to refuse
	case errors.Is(context.Cause(a.ctx), errNoToken):
		return a.tardy(l)
	default:
		return context.Canceled
	}
}

// tardy returns the outcome of a leg that was cut off because there was no token
// in time. If prefill has answered, decode is too slow; if only prefill was
// asked, it is. Of two that wait for one another, it cannot be told.
func (a *attempt) tardy(l *leg) error {
	if !l.reached {
		return context.Canceled
	}
	prefilled := false
	select {
	case <-a.prefilled:
		prefilled = true
	default:
	}
	switch {
	case prefilled && l.role == workers.Prefill:
		return context.Canceled // it has ended before
	case prefilled || a.prefillFirst():
		return &workers.Fault{Kind: workers.Failed, Err: errNoToken}
	default:
		return &workers.Fault{Kind: workers.HandOff, Err: errNoToken}
	}
}

// legFailed classifies what went wrong between us and a worker. It returns an
// *Error, or the context's error if the leg was ended by us: ctx is asked, not
// err, because a cancelled leg fails in many ways.
func (a *attempt) legFailed(l *leg, err error) error {
	x, isExchange := errors.AsType[*exchange.Error](err)
	l.reached = !isExchange || x.Phase != exchange.Dial
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	return brokenOff(l.role, err)
}

// brokenOff returns the error for an exchange with a worker that came to no good
// end. What was lost to a stale connection is nobody's fault, and neither is what
// our own limits forbid.
func brokenOff(role workers.Role, err error) *Error {
	e := &Error{
		Status: http.StatusBadGateway, Code: role.String() + "_request_failed", Leg: role.String(), Err: err, Again: true,
		Message: "The " + role.String() + " engine could not be reached or broke off.",
		Fault:   &workers.Fault{Kind: workers.Failed, Err: err},
	}
	x, isExchange := errors.AsType[*exchange.Error](err)
	switch {
	case errors.Is(err, errMemory):
		e.Status, e.Code, e.RetryAfter, e.Fault, e.Again = http.StatusServiceUnavailable, "overloaded", "1", nil, false
		e.Message = "Too many large answers are held at this moment. Try again shortly."
	case errors.Is(err, exchange.ErrTooManyConnections):
		e.Status, e.RetryAfter, e.Fault = http.StatusServiceUnavailable, "1", nil
		e.Message = "Too many requests are under way on the " + role.String() + " engine."
	case isExchange && x.Timeout && x.Phase != exchange.Dial:
		e.Status, e.Message = http.StatusGatewayTimeout, "The "+role.String()+" engine did not answer in time."
	case isExchange && x.Stale:
		e.Fault = nil
	case isExchange && x.Lost():
		e.Fault.Kind = workers.Unreachable
	}
	return e
}
