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

// prefill runs the prefill leg. Its verdict is its whole answer: status 200, no
// error in it, no abort.
func (a *attempt) prefill() {
	err := a.prefillLeg()
	a.end(&a.pair.Prefill, workers.Prefill, err)
	if e, ok := errors.AsType[*Error](err); ok {
		a.fail(e)
		return
	}
	if err == nil {
		a.work.Prefilled(a.answered.Sub(a.began))
		close(a.prefilled)
		a.gate.approve()
	}
}

func (a *attempt) prefillLeg() error {
	leg, err := a.dialect.Prefill(a.req, a.keys)
	if err != nil {
		return errorFor(err)
	}
	answer, err := a.send(workers.Prefill, &a.pair.Prefill, leg)
	if err != nil {
		return err
	}
	defer answer.Close()
	body, whole, err := a.readAnswer(workers.Prefill, answer)
	switch {
	case err != nil:
		return a.legFailed(workers.Prefill, err)
	case !whole:
		return a.tooLong(workers.Prefill)
	}
	a.ended[workers.Prefill] = true
	a.answer, a.answered = body, time.Now()
	if a.prefillUsage, err = transfer.Verdict(a.req.Endpoint(), body); err != nil {
		if said, ok := errors.AsType[*transfer.EngineError](err); ok {
			return a.engineError(workers.Prefill, said, "")
		}
		return a.nonsense(workers.Prefill, err)
	}
	return nil
}

// readAnswer is readWhole for a leg, whose memory it notes.
func (a *attempt) readAnswer(role workers.Role, answer *exchange.Answer) (body []byte, whole bool, err error) {
	body, whole, err = a.h.readWhole(answer, &a.held[role])
	if whole {
		a.bodies[role] = body
	}
	return body, whole, err
}

// readWhole reads an answer to its end, or up to Config.MaxAnswerBytes: then
// it is not whole. What is long counts against Config.MaxBufferedBytes.
func (h *Handler) readWhole(answer *exchange.Answer, held *holding) (body []byte, whole bool, err error) {
	size := answer.Length() + 1
	if size <= 0 || size > maxHold {
		size = minHold // grown as it comes, so that a length alone costs nothing
	}
	buf := h.answers.take(size)
	for {
		n, err := answer.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, true, nil
		case err != nil:
			return nil, false, err
		case int64(len(buf)) > h.cfg.MaxAnswerBytes:
			return buf, false, nil
		case len(buf) == cap(buf):
			if cap(buf) >= maxHold && !held.add(int64(cap(buf))) {
				return nil, false, errMemory
			}
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
	}
}

func (a *attempt) tooLong(role workers.Role) error { return a.h.answerTooLong(role) }

// answerTooLong returns the error for an answer that must be held whole and is
// longer than it may be. The client asked for it, so nobody is to blame.
func (h *Handler) answerTooLong(role workers.Role) *Error {
	return &Error{
		Status: http.StatusBadGateway, Code: role.String() + "_answer_too_large", Leg: role.String(), Blameless: true,
		Message: fmt.Sprintf("The %s engine's answer is longer than %d bytes (--max-answer-size).", role, h.cfg.MaxAnswerBytes),
	}
}

func (a *attempt) nonsense(role workers.Role, err error) error { return nonsense(role, err) }

// nonsense returns the error for a 200 that is no answer.
func nonsense(role workers.Role, err error) *Error {
	return &Error{
		Status: http.StatusBadGateway, Code: role.String() + "_invalid_answer", Leg: role.String(), Err: err,
		Message: "The " + role.String() + " engine gave an answer that makes no sense.",
	}
}
