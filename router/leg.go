package router

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"pdrouter/exchange"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// maxErrorBytes bounds what is read of an engine's error.
const maxErrorBytes = 1 << 20

// A leg is one of the two requests of an attempt, and how far it has come.
type leg struct {
	role  workers.Role
	lease *workers.Lease

	reached bool // the engine may have read it
	taken   bool // the engine has begun to answer; decode takes the hand-off over
	ended   bool // the engine ended it by itself
	done    bool // its lease has ended

	body []byte  // the memory of a JSON answer
	held holding // what that takes, if it is long
}

// send sends what a dialect wrote, and returns when a connection stands. Any
// error is one as legFailed makes it.
func (a *attempt) send(l *leg, written transfer.Leg) (*exchange.Answer, error) {
	l.reached = true
	worker := l.lease.Worker
	a.work.Sent(worker.URL)
	if l.role == workers.Decode {
		l.lease.Sent()
		a.call.rec.Sent(time.Now())
		if a.prefillFirst() {
			a.answering()
		}
	}
	answer, err := worker.Peer.Send(a.ctx, &exchange.Request{
		Path:   written.Path,
		Header: a.call.legHeader(worker, a.keys.ID),
		Body:   written.Body,
	})
	if err != nil {
		return nil, a.legFailed(l, err)
	}
	return answer, nil
}

// await waits until the engine answers with status 200. Any other answer, and
// none, is an error as legFailed and refused make it, and closes the answer.
func (a *attempt) await(l *leg, answer *exchange.Answer) error {
	if err := answer.Await(); err != nil {
		return a.legFailed(l, err)
	}
	if answer.Status == http.StatusOK {
		l.taken = true
		a.h.met.Upstream(answer.Status, "")
		return nil
	}
	defer answer.Close()
	body, err := io.ReadAll(io.LimitReader(answer, maxErrorBytes))
	if err != nil && a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	l.ended = true
	return a.h.refused(l.role, answer, body)
}

// answering notes that decode generates an answer of which nothing is seen
// before its end.
func (a *attempt) answering() {
	if !a.call.streaming {
		a.legs[workers.Decode].lease.Answering()
	}
}

// refused returns the error for a leg that its engine answered with a status
// other than 200. The client gets an engine's 4xx as it is: it speaks of the
// client's own request. What an engine says of its own troubles names rooms and
// addresses, so it stays in the log.
func (h *Handler) refused(role workers.Role, answer *exchange.Answer, body []byte) *Error {
	return h.engineError(role, transfer.ParseError(answer.Status, body), answer.Header.Get("Retry-After"))
}

// engineError returns the error for what an engine reported, in whatever way.
func (h *Handler) engineError(role workers.Role, said *transfer.EngineError, retryAfter string) *Error {
	code := role.String() + "_upstream_error"
	h.met.Upstream(said.Status, code)
	e := &Error{Status: said.Status, Code: code, Leg: role.String(), Err: said}
	switch {
	case said.Status >= 400 && said.Status < statusClientGone: // which is not an engine's to say
		e.Message = "The engine refused the request."
		e.Body = relayable(said.Raw)
		e.RetryAfter = sane(retryAfter)
	case said.Status == http.StatusServiceUnavailable:
		e.Message = "The " + role.String() + " engine takes no request at this moment."
		e.RetryAfter = sane(retryAfter)
	case said.Status >= 500 && said.Status < 600:
		e.Message = "The " + role.String() + " engine failed."
	default:
		e.Status = http.StatusBadGateway
		e.Message = "The " + role.String() + " engine gave an answer that makes no sense."
	}
	e.Again = mayHelp(e.Status)
	e.Fault = faultOf(role, said, e)
	if e.RetryAfter == "" && e.Fault != nil && e.Fault.Kind == workers.Busy {
		e.RetryAfter = "1" // a client without one may come again at once
	}
	return e
}

// mayHelp reports whether another pair may do better than an engine that
// answered with status. The list is smg's, and the rest of 5xx but 501.
func mayHelp(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	}
	return status >= 500
}

// faultOf returns what an engine's error says against somebody, if anything. A
// decode's 500 that does not say why may well be prefill's doing, and so may
// whatever speaks of the hand-off.
func faultOf(role workers.Role, said *transfer.EngineError, e *Error) *workers.Fault {
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(e.RetryAfter) // none is 0
		return &workers.Fault{Kind: workers.Busy, Wait: time.Duration(seconds) * time.Second, Err: said}
	case e.Status < 500, e.Status == http.StatusNotImplemented:
		return nil
	case said.OfHandOff(), role == workers.Decode && said.Unexplained():
		return &workers.Fault{Kind: workers.HandOff, Err: said}
	default:
		return &workers.Fault{Kind: workers.Failed, Err: said}
	}
}

// relayable returns an engine's own JSON error, or nil if it is none. A bare
// error object, as it stands in a stream's frame, gets its envelope.
func relayable(raw []byte) []byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' || !json.Valid(raw) {
		return nil
	}
	return raw
}

// sane returns a Retry-After in seconds if it is one, else nothing.
func sane(retryAfter string) string {
	if n, err := strconv.Atoi(retryAfter); err != nil || n < 0 || n > 3600 {
		return ""
	}
	return retryAfter
}
