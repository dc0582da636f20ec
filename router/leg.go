package router

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"pdrouter/exchange"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// maxErrorBytes bounds what is read of an engine's error.
const maxErrorBytes = 1 << 20

// send sends a leg and returns its answer of status 200. Any other answer, and
// none, is an error as legFailed and refused make it.
func (a *attempt) send(role workers.Role, l *workers.Lease, leg transfer.Leg) (*exchange.Answer, error) {
	a.reached[role] = true
	answer, err := l.Worker.Peer.Do(a.ctx, &exchange.Request{
		Path:   leg.Path,
		Header: a.h.legHeader(a.call.r, l.Worker, a.keys.ID),
		Body:   leg.Body,
	})
	if err != nil {
		return nil, a.legFailed(role, err)
	}
	if answer.Status == http.StatusOK {
		a.taken[role] = true
		a.h.met.Upstream(answer.Status, "")
		return answer, nil
	}
	defer answer.Close()
	body, err := io.ReadAll(io.LimitReader(answer, maxErrorBytes))
	if err != nil && a.ctx.Err() != nil {
		return nil, a.ctx.Err()
	}
	a.ended[role] = true
	return nil, a.refused(role, answer, body)
}

// refused returns the error for a leg that its engine answered with a status
// other than 200. The client gets an engine's 4xx as it is: it speaks of the
// client's own request. What an engine says of its own troubles names rooms and
// addresses, so it stays in the log.
func (a *attempt) refused(role workers.Role, answer *exchange.Answer, body []byte) *Error {
	return a.engineError(role, transfer.ParseError(answer.Status, body), answer.Header.Get("Retry-After"))
}

func (a *attempt) engineError(role workers.Role, said *transfer.EngineError, retryAfter string) *Error {
	return a.h.engineError(role, said, retryAfter)
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
	return e
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
