package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pdrouter/exchange"
	"pdrouter/metrics"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// decode runs the decode leg and relays its answer.
func (a *attempt) decode() {
	l := &a.legs[workers.Decode]
	answer, err := a.askDecode(l)
	if err == nil {
		if err = a.relay(l, answer); err == nil {
			l.lease.Generated(int(a.usage.Completion), !a.call.aborted)
		}
	}
	a.end(l, err)
	e, failed := errors.AsType[*Error](err)
	a.delivered = err == nil || failed && e.told
	if failed {
		a.final = e
		a.fail(e)
	}
}

// askDecode sends the decode leg and returns its answer of status 200.
func (a *attempt) askDecode(l *leg) (*exchange.Answer, error) {
	written := a.handOff
	if !a.prefillFirst() {
		var err error
		if written, err = a.dialect.Decode(a.req, a.keys, nil); err != nil {
			return nil, errorFor(err)
		}
	}
	a.merged = written.Merged
	answer, err := a.send(l, written)
	if err != nil {
		return nil, err
	}
	return answer, a.await(l, answer)
}

// relay relays decode's answer, whatever it is, and ends the exchange.
func (a *attempt) relay(l *leg, answer *exchange.Answer) error {
	defer answer.Close()
	if !isEventStream(answer.Header.Get("Content-Type")) {
		return a.relayJSON(l, answer)
	}
	if !a.req.Stream() {
		return nonsense(workers.Decode, errors.New("a stream that nobody asked for"))
	}
	return a.newStream(answer).relay()
}

func isEventStream(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

// relayJSON relays an answer that is one JSON value. It is held until it is
// known to be whole and prefill has said that it succeeded; above
// Config.MaxAnswerBytes it is let go, and a break aborts the connection.
func (a *attempt) relayJSON(l *leg, answer *exchange.Answer) error {
	body, whole, err := a.readAnswer(l, answer)
	if err != nil {
		return a.legFailed(l, err)
	}
	l.ended = whole
	if whole {
		if err := a.judgeJSON(body); err != nil {
			return err
		}
	}
	switch {
	case a.req.Stream(): // its client would read no token of it, and no error
		return nonsense(workers.Decode, errors.New("JSON where a stream was due"))
	case !whole && a.merged:
		return a.call.cfg.answerTooLong(workers.Decode) // parts of prefill's answer belong into it
	}
	if err := a.verdict(a.merged); err != nil {
		return err
	}
	if whole && a.merged {
		if body, err = a.dialect.Merge(a.req, a.answer, body); err != nil {
			return nonsense(workers.Decode, err)
		}
	}
	a.call.rec.Answers(time.Now())
	w := a.call.w
	relayHeader(w.Header(), answer.Header)
	switch {
	case whole:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	case answer.Length() >= 0:
		w.Header().Set("Content-Length", strconv.FormatInt(answer.Length(), 10))
	}
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(body); err != nil {
		return a.clientLeft()
	}
	if !whole {
		return a.copyRest(l, answer)
	}
	return nil
}

// judgeJSON says what is wrong with an answer that is whole, if anything.
func (a *attempt) judgeJSON(body []byte) error {
	what, err := transfer.Whole(a.req.Endpoint(), body)
	if said, ok := errors.AsType[*transfer.EngineError](err); ok {
		return a.h.engineError(workers.Decode, said, "")
	}
	if err != nil {
		return nonsense(workers.Decode, err)
	}
	a.usage = what.Usage
	if what.Aborted {
		a.how, a.call.aborted = metrics.EngineAbort, true // relayed as it is (BUG-034)
	}
	return nil
}

// copyRest relays what is left of an answer that was too long to be held.
func (a *attempt) copyRest(l *leg, answer *exchange.Answer) error {
	buf := a.h.memory.take(32 << 10)
	buf = buf[:cap(buf)]
	defer a.h.memory.put(buf)
	for {
		n, err := answer.Read(buf)
		if n > 0 {
			if _, err := a.call.w.Write(buf[:n]); err != nil {
				return a.clientLeft()
			}
		}
		if errors.Is(err, io.EOF) {
			l.ended = true
			return nil
		}
		if err != nil {
			return a.legFailed(l, err)
		}
	}
}

// verdict waits until prefill has said that it succeeded: as long as it takes
// if the client's answer needs parts of prefill's, else at most maxWait.
func (a *attempt) verdict(needed bool) error {
	if needed {
		select {
		case <-a.prefilled:
		case <-a.ctx.Done():
		}
	}
	if !a.awaitVerdict() {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		a.h.met.VerdictLate()
		a.late = true
	}
	return nil
}

// clientLeft ends the attempt because the client takes nothing.
func (a *attempt) clientLeft() error {
	a.cancel(errClientGone)
	return context.Canceled
}

// timeFirstToken records that the first token came at that time.
func (a *attempt) timeFirstToken(at time.Time) {
	a.firstToken = at
	var handOff time.Duration
	if a.prefillFirst() {
		handOff = at.Sub(a.answered)
	}
	a.work.FirstToken(at.Sub(a.call.began), at.Sub(a.began), handOff)
	if a.gate.opened() { // by what was too long to be held
		a.see(at)
	}
}
