package router

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"pdrouter/exchange"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// sendPrefill sends the prefill leg. When it returns, prefill takes it.
func (a *attempt) sendPrefill() (*exchange.Answer, error) {
	written, err := a.dialect.Prefill(a.req, a.keys)
	if err != nil {
		return nil, errorFor(err)
	}
	return a.send(&a.legs[workers.Prefill], written)
}

// prefill ends the prefill leg, of which sendPrefill returned the answer. Its
// verdict is the whole answer: status 200, no error in it, no abort, and in a
// dialect that prefills first a hand-off that can be passed on.
func (a *attempt) prefill(answer *exchange.Answer, err error) {
	l := &a.legs[workers.Prefill]
	if err == nil {
		err = a.judgePrefill(l, answer)
	}
	if err == nil {
		l.lease.Computed(int(a.prefillUsage.Prompt), int(a.prefillUsage.Cached))
		a.countFound()
	}
	a.end(l, err)
	if e, ok := errors.AsType[*Error](err); ok {
		a.fail(e)
		return
	}
	if err == nil {
		a.work.Prefilled(a.answered, a.answered.Sub(a.began), a.call.id)
		a.call.rec.Prefilled(a.answered)
		if !a.prefillFirst() {
			a.answering()
		}
		close(a.prefilled)
		a.gate.approve()
	}
}

// judgePrefill reads prefill's answer and says what is wrong with it.
func (a *attempt) judgePrefill(l *leg, answer *exchange.Answer) error {
	if err := a.await(l, answer); err != nil {
		return err
	}
	defer answer.Close()
	body, whole, err := a.readAnswer(l, answer)
	switch {
	case err != nil:
		return a.legFailed(l, err)
	case !whole:
		return a.call.cfg.answerTooLong(l.role)
	}
	l.ended = true
	a.answer, a.answered = body, time.Now()
	if a.prefillUsage, err = transfer.Verdict(a.req.Endpoint(), body); err != nil {
		if said, ok := errors.AsType[*transfer.EngineError](err); ok {
			return a.h.engineError(l.role, said, "")
		}
		return nonsense(l.role, err)
	}
	if a.prefillFirst() {
		return a.takeHandOff()
	}
	return nil
}

// takeHandOff writes decode's leg from what prefill answered. A malformed
// hand-off must not reach decode, because it kills a real engine.
func (a *attempt) takeHandOff() (err error) {
	if a.handOff, err = a.dialect.Decode(a.req, a.keys, a.answer); err == nil {
		return nil
	}
	return &Error{
		Status: http.StatusBadGateway, Code: "prefill_invalid_handoff", Leg: workers.Prefill.String(), Err: err, Again: true,
		Message: "The prefill engine gave a hand-off that makes no sense.",
		Fault:   &workers.Fault{Kind: workers.Failed, Err: err},
	}
}

// readAnswer is readWhole for a leg, whose memory it notes.
func (a *attempt) readAnswer(l *leg, answer *exchange.Answer) (body []byte, whole bool, err error) {
	body, whole, err = a.h.readWhole(answer, a.call.cfg.MaxAnswerBytes, &l.held)
	if whole {
		l.body = body
	}
	return body, whole, err
}

// readWhole reads an answer to its end, or up to most bytes: then it is
// not whole. What is long counts against Config.MaxBufferedBytes.
func (h *Handler) readWhole(answer *exchange.Answer, most int64, held *holding) (body []byte, whole bool, err error) {
	size := answer.Length() + 1
	if size <= 0 || size > maxHold {
		size = minHold // grown as it comes, so that a length alone costs nothing
	}
	buf := h.memory.take(size)
	for {
		n, err := answer.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, true, nil
		case err != nil:
			h.memory.put(buf)
			return nil, false, err
		case int64(len(buf)) > most:
			return buf, false, nil
		case len(buf) == cap(buf):
			if cap(buf) >= maxHold && !held.add(int64(cap(buf))) {
				return nil, false, errMemory
			}
			buf = h.memory.move(buf, 2*cap(buf))
		}
	}
}

// answerTooLong returns the error for an answer that must be held whole and is
// longer than it may be. The client asked for it, so nobody is to blame.
func (c *Config) answerTooLong(role workers.Role) *Error {
	return &Error{
		Status: http.StatusBadGateway, Code: role.String() + "_answer_too_large", Leg: role.String(),
		Message: fmt.Sprintf("The %s engine's answer is longer than %d bytes (--max-answer-size).", role, c.MaxAnswerBytes),
	}
}

// nonsense returns the error for a 200 that is no answer.
func nonsense(role workers.Role, err error) *Error {
	return &Error{
		Status: http.StatusBadGateway, Code: role.String() + "_invalid_answer", Leg: role.String(), Err: err, Again: true,
		Message: "The " + role.String() + " engine gave an answer that makes no sense.",
		Fault:   &workers.Fault{Kind: workers.Failed, Err: err},
	}
}
