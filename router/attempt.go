package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"pdrouter/exchange"
	"pdrouter/metrics"
	"pdrouter/record"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// An attempt is one try of a request on one pair. Its two legs have one fate:
// the first real failure of either ends both and decides the outcome (I3).
type attempt struct {
	h       *Handler
	call    *call
	req     *transfer.Request
	dialect transfer.Dialect
	keys    transfer.Attempt
	legs    [2]leg // by role
	work    *metrics.Work
	gate    gate
	began   time.Time

	// predicted is what part of the prompt prefill was believed to have in its
	// cache when it was chosen; below 0: nothing was believed.
	predicted float64

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex  // guards the following
	first    *Error      // the failure that decides
	patience *time.Timer // calls overtime

	beside    sync.WaitGroup // the goroutine of prefill's leg, if it has one
	prefilled chan struct{}  // closed when prefill has succeeded
	answer    []byte         // prefill's whole answer; read it after prefilled
	answered  time.Time      // when it came
	handOff   transfer.Leg   // decode's, in a dialect that prefills first

	streamHeader exchange.Header // decode's, for when the stream begins
	usage        transfer.Usage  // decode's, if it tells
	prefillUsage transfer.Usage  // likewise; read it with answer
	how          metrics.AnswerEnd
	merged       bool // the client's answer needs parts of prefill's
	late         bool // a JSON answer was let go without prefill's verdict
	firstToken   time.Time
	lastToken    time.Time
	delivered    bool   // all of the answer has been passed on: what comes later changes nothing
	final        *Error // decode's, if it failed
}

// The causes with which an attempt ends that took too long: one of a JSON
// answer, which may be as long as the client wished, and one of a stream.
var (
	errTimeout = errors.New("request timeout")
	errNoToken = errors.New("no token in time")
)

// attempt runs the request once, on one pair, and returns when both legs have
// ended. It is the only place from which legs are sent: a retry is another
// call, with another pair and new hand-off keys (I2).
//
// What a stream passes through keeps its stack small, here and below: a
// goroutine of 8 KiB for each open stream, or one of 16, is what most of their
// memory is.
func (h *Handler) attempt(c *call, req *transfer.Request, pair *workers.Pair) error {
	a, err := h.newAttempt(c, req, pair)
	if err != nil {
		pair.Prefill.Done(context.Canceled)
		pair.Decode.Done(context.Canceled)
		return err
	}
	defer a.cancel(nil)
	defer a.endRest()
	return a.run()
}

// newAttempt mints what belongs to one attempt.
func (h *Handler) newAttempt(c *call, req *transfer.Request, pair *workers.Pair) (*attempt, error) {
	dialect, ok := transfer.Lookup(pair.Dialect)
	if !ok {
		return nil, fmt.Errorf("unknown dialect %q", pair.Dialect)
	}
	a := &attempt{
		h: h, call: c, req: req, dialect: dialect, began: time.Now(),
		keys:      transfer.NewAttempt(req),
		work:      h.met.Work(c.model, endpointLabel(req.Endpoint()), pair.Dialect, req.Stream()),
		prefilled: make(chan struct{}),
		usage:     transfer.Usage{Prompt: -1, Completion: -1, Cached: -1},
		legs: [2]leg{
			workers.Prefill: {role: workers.Prefill, lease: &pair.Prefill, held: holding{h: h}},
			workers.Decode:  {role: workers.Decode, lease: &pair.Decode, held: holding{h: h}},
		},
	}
	a.keys.BootstrapHost, a.keys.BootstrapPort = pair.Prefill.Facts.BootstrapHost, pair.Prefill.Facts.BootstrapPort
	a.gate.to, a.gate.memory, a.gate.of = c.w, &h.memory, a
	a.prefillUsage = a.usage
	a.work.Attempted()
	a.expect(pair)
	c.prefill, c.decode = pair.Prefill.Worker.ID, pair.Decode.Worker.ID
	if !a.prefillFirst() {
		c.room = a.keys.Rooms[0]
		c.rec.Room(c.room)
	}
	c.attempts++
	a.ctx, a.cancel = context.WithCancelCause(c.r.Context())
	a.beginPatience()
	return a, nil
}

// beginPatience bounds the attempt: a stream in all that comes before its first
// token, so that an engine that sends comments, or one half of a hand-off that
// waits for the other, gains nothing; a JSON answer as a whole, and in prefill's
// part of it, which is one token also when the answer is long.
func (a *attempt) beginPatience() {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit := a.call.cfg.FirstByte
	if !a.call.streaming {
		limit = min(limit, a.call.cfg.RequestTimeout)
	}
	a.patience = time.AfterFunc(limit, a.overtime)
}

func (a *attempt) endPatience() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.patience.Stop()
}

// run sends the legs in the dialect's order and returns the attempt's outcome.
func (a *attempt) run() error {
	if a.prefillFirst() {
		a.inTurn()
	} else {
		a.together()
	}
	return a.conclude()
}

// conclude tells engines what they have to know, counts, and returns the
// attempt's outcome. Both legs have ended.
func (a *attempt) conclude() error {
	a.endPatience()
	a.settle()
	err := a.outcome()
	a.countHandOff(err)
	if err == nil || a.call.w.begun() { // else another attempt may count them
		a.countTokens()
	}
	if err == nil {
		for i := range a.legs { // an error may still speak of them
			a.h.memory.put(a.legs[i].body)
		}
	}
	a.countEnd(err)
	return err
}

// countEnd counts how the answer ended, if it had begun.
func (a *attempt) countEnd(err error) {
	if a.call.w.begun() && !a.firstToken.IsZero() {
		a.work.Decoded(a.lastToken.Sub(a.firstToken))
	}
	switch {
	case !a.call.w.begun():
	case errors.Is(err, errClientGone):
		a.h.met.AnswerEnded(metrics.ClientGone)
	case a.how != "":
		a.h.met.AnswerEnded(a.how)
	case err != nil:
		a.h.met.AnswerEnded(metrics.Truncated)
	default:
		a.h.met.AnswerEnded(metrics.Complete)
	}
}

// countTokens counts what the engines say the request had. Prefill's figure of
// the prompt is there also when the client did not ask decode for usage.
func (a *attempt) countTokens() {
	prompt := a.usage.Prompt
	if a.prefillUsage.Prompt > 0 {
		prompt = a.prefillUsage.Prompt
	}
	var generating time.Duration // not known of a JSON answer: it comes as a whole
	if !a.firstToken.IsZero() {
		generating = time.Since(a.firstToken)
	}
	a.work.Tokens(prompt, a.usage.Completion, generating)
	a.call.rec.Counts(record.Counted{
		PromptTokens: prompt, CachedTokens: a.prefillUsage.Cached, Predicted: a.predictedTokens(), AnswerTokens: a.usage.Completion,
	})
}

// inTurn sends prefill's leg, and decode's when prefill has answered.
func (a *attempt) inTurn() {
	a.prefill(a.sendPrefill())
	if a.failure() == nil {
		a.decode()
	}
}

// together sends both legs at once. Decode's waits until prefill's has a
// connection: a decode engine that waits for a prefill which never hears of the
// request keeps KV for it (SGLang for 30 s), and so would one for each attempt.
func (a *attempt) together() {
	answer, err := a.sendPrefill()
	if err != nil {
		a.prefill(nil, err)
		return
	}
	a.beside.Add(1)
	go a.prefillBeside(answer)
	defer func() {
		a.cancel(context.Canceled) // if decode panicked too, prefill's leg must not outlive the request
		a.beside.Wait()
	}()
	a.decode()
	if a.late || !a.awaitVerdict() {
		a.gate.overdue() // the answer is there; what prefill still does is of no use
	}
}

// prefillBeside is prefill on a goroutine of its own.
func (a *attempt) prefillBeside(answer *exchange.Answer) {
	defer a.beside.Done()
	defer a.survive()
	a.prefill(answer, nil)
}

// survive makes a panic in a goroutine of ours a failure like any other: one
// request must not end the process.
func (a *attempt) survive() {
	if p := recover(); p != nil {
		a.fail(errorFor(fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
	}
}

// endRest ends the leases that are still open, because prefill failed first, or
// because of a panic (I1), and gives back what long answers took.
func (a *attempt) endRest() {
	for i := range a.legs {
		l := &a.legs[i]
		if !l.done {
			a.end(l, context.Canceled)
		}
		if l.held.n > 0 {
			l.held.release()
		}
	}
}

func (a *attempt) prefillFirst() bool { return a.dialect.Traits().Order == transfer.PrefillFirst }

// awaitVerdict waits until prefill has succeeded, at most maxWait longer than
// decode took, and reports whether it has.
func (a *attempt) awaitVerdict() bool {
	select {
	case <-a.prefilled:
		return true
	default:
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-a.prefilled:
		return true
	case <-a.ctx.Done():
		a.gate.shut() // what is held is for nobody
	case <-timer.C:
	}
	select {
	case <-a.prefilled:
		return true
	default:
		return false
	}
}

// fail records what ended the attempt, if nothing did before, and ends both
// legs. A leg that only reports our own cancelling does not call it.
func (a *attempt) fail(e *Error) {
	a.mu.Lock()
	if a.first == nil && a.ctx.Err() == nil {
		a.first = e
	}
	a.mu.Unlock()
	a.gate.shut()
	a.cancel(e)
}

func (a *attempt) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first != nil {
		return a.first
	}
	return a.ctx.Err()
}

// overtime ends a stream that has not begun in time, and a request for JSON whose
// prefill has not answered, or which has taken too long as a whole.
func (a *attempt) overtime() {
	a.mu.Lock()
	defer a.mu.Unlock()
	took := time.Since(a.began)
	left := a.call.cfg.RequestTimeout - took
	switch {
	case (a.call.streaming || took >= a.call.cfg.FirstByte) && !a.inTime():
		if a.first == nil && a.ctx.Err() == nil {
			a.first = &Error{Status: http.StatusGatewayTimeout, Code: "first_byte_timeout", Message: "The engines sent no token in time."}
		}
		a.cancel(errNoToken)
	case a.call.streaming:
	case left <= 0:
		a.cancel(errTimeout)
	default:
		a.patience.Reset(left)
	}
}

// inTime reports whether a stream has begun, or else prefill has answered. A
// stream that has not begun will not.
func (a *attempt) inTime() bool {
	if a.call.streaming {
		return a.gate.shut()
	}
	select {
	case <-a.prefilled:
		return true
	default:
		return false
	}
}
