package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// fakeBootstrapHost makes a leg work without the other one.
const fakeBootstrapHost = "2.2.2.2"

// serveSGLang serves a request, whose parsing ended with err.
func (c *call) serveSGLang(err error) {
	if err != nil {
		c.sglangRefuse(err)
		return
	}
	c.e.countKeys(c.r)
	if err := c.sglangLegs(); err != nil {
		c.sglangRefuse(err)
		return
	}
	defer func() {
		for _, l := range c.legs {
			c.e.live.remove(l.rid)
		}
	}()
	if c.r.stream {
		c.sglangStream()
		return
	}
	if err := c.sglangRunAll(); err != nil {
		if !c.stopped(err) {
			c.sglangFail(err)
		}
		return
	}
	answerJSON(c.w, http.StatusOK, c.sglangBody())
}

// countKeys counts what is wrong with a body's hand-off keys.
func (e *Engine) countKeys(r *request) {
	for range r.duplicates {
		e.violations.add(DuplicateKey)
	}
}

// sglangLegs makes the legs, one per prompt, each under its rid.
func (c *call) sglangLegs() error {
	for i := range c.r.prompts {
		l := c.e.newLeg(c.r, i, c.e.cfg.Role == Decode)
		l.fault = c.fault.midway()
		l.rid = c.r.rid(i)
		if l.rid == "" {
			l.rid = randomHex(16)
		}
		room, ok := c.r.room(i)
		if !ok {
			c.forgetLegs()
			c.e.violations.add(NoRoom)
			return &refusal{sglang: fmt.Sprintf(
				"Invalid request: Disaggregated request received without bootstrap room id. req.rid='%s'", l.rid)}
		}
		if room.float {
			c.e.violations.add(FloatRoom)
		}
		l.room = room.number
		l.fake = c.r.host(i) == fakeBootstrapHost
		if capacity := c.e.sched.capacity(); len(l.p.tokens) > capacity {
			c.forgetLegs()
			return promptTooLarge(len(l.p.tokens), capacity)
		}
		taken, prefix := c.e.live.add(l.rid, c.cancel)
		if taken {
			c.forgetLegs()
			c.e.violations.add(RIDTwice)
			return &refusal{sglang: "Duplicate request ID detected: " + l.rid}
		}
		if prefix {
			c.e.violations.add(RIDPrefix)
		}
		c.legs = append(c.legs, l)
	}
	return nil
}

// forgetLegs undoes sglangLegs.
func (c *call) forgetLegs() {
	for _, l := range c.legs {
		c.e.live.remove(l.rid)
	}
	c.legs = nil
}

// sglangRunAll runs all legs, side by side, and returns the first failure.
func (c *call) sglangRunAll() error {
	if len(c.legs) == 1 {
		return c.sglangRun(c.legs[0])
	}
	errs := make([]error, len(c.legs))
	var wg sync.WaitGroup
	for i, l := range c.legs {
		wg.Go(func() { errs[i] = c.sglangRun(l) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sglangRun runs one leg to the end of its answer.
func (c *call) sglangRun(l *leg) error {
	l.dispatched = time.Now()
	var err error
	if c.e.cfg.Role == Prefill {
		err = c.sglangPrefill(l)
	} else {
		err = c.sglangDecode(l)
	}
	l.finished = time.Now()
	c.e.count(l, err)
	return err
}

// sglangPrefill waits for decode, computes the prompt, hands its KV over, and
// answers with one token.
func (c *call) sglangPrefill(l *leg) error {
	e := c.e
	at := e.rooms.arrive(l)
	defer e.rooms.leave(at)
	if c.r.n > 1 {
		// All samples come with one room: the second waits for good, and the
		// first with it.
		e.violations.add(SeveralSamples)
		return c.timeout(l, whatBootstrap, e.cfg.BootstrapTimeout, "Bootstrapping")
	}
	if !l.fake {
		err := at.await(c.ctx, e.cfg.BootstrapTimeout)
		if errors.Is(err, context.DeadlineExceeded) {
			return timedOut(l, whatBootstrap, e.cfg.BootstrapTimeout, "Bootstrapping")
		}
		if err != nil {
			return c.handOffFailed(at, l, whatBootstrap, err)
		}
	}
	if err := e.sched.enter(c.ctx, l.q); err != nil {
		return c.handOffFailed(at, l, whatPrefill, err)
	}
	l.admitted = time.Now()
	if err := e.sched.compute(c.ctx, l.q); err != nil {
		return c.handOffFailed(at, l, whatPrefill, err)
	}
	l.computed = time.Now()
	l.cached = l.q.firstCached
	kv := handOff{Prompt: l.q.id, Tokens: l.q.promptTokens, Cached: l.cached}
	delivered := l.fake || e.rooms.deliver(at, l, kv)
	e.sched.leave(l.q)
	if !delivered {
		e.counts.failedTransfers.Add(1)
		return transferError(whatPrefill, l, "Decode instance could be dead")
	}
	e.counts.countTransfer(l.q.promptTokens, time.Since(l.computed))
	l.answer(l.q.id)
	l.n, l.stops = 1, false
	err := l.speak(1)
	l.reason = "length"
	return err
}

// handOffFailed tells decode that there will be no KV, and returns what prefill
// answers. One that ends itself tells nobody: decode loses its connection.
func (c *call) handOffFailed(at *room, l *leg, what string, err error) error {
	if c.e.base.Err() == nil {
		c.e.rooms.deliver(at, l, handOff{Error: "Failed to get kvcache from prefill instance, it might be dead"})
	}
	if errors.Is(err, errAborted) {
		c.e.counts.aborted.Add(1)
		return transferError(what, l, "Aborted by AbortReq.")
	}
	return err
}

// timeout waits in vain.
func (c *call) timeout(l *leg, what string, d time.Duration, poll string) error {
	err := sleep(c.ctx, d)
	if errors.Is(err, errAborted) {
		return transferError(what, l, "Aborted by AbortReq.")
	}
	if err != nil {
		return err
	}
	return timedOut(l, what, d, poll)
}

// timedOut returns the failure of a leg that the other one kept waiting.
func timedOut(l *leg, what string, d time.Duration, poll string) error {
	l.e.counts.failedTransfers.Add(1)
	return transferError(what, l, fmt.Sprintf("Request %d timed out after %.1fs in KVPoll.%s", l.room, d.Seconds(), poll))
}

// sglangDecode gets blocks, then the KV, then generates.
func (c *call) sglangDecode(l *leg) error {
	e := c.e
	if c.r.n > 1 {
		e.violations.add(SeveralSamples)
		return c.timeout(l, whatTransfer, e.cfg.WaitingTimeout, "WaitingForInput")
	}
	if err := e.sched.enter(c.ctx, l.q); err != nil {
		if errors.Is(err, errAborted) {
			return transferError(whatTransfer, l, "Aborted by AbortReq.")
		}
		return err
	}
	l.admitted = time.Now()
	kv := handOff{Prompt: l.q.id, Tokens: l.q.promptTokens}
	if !l.fake {
		var err error
		if kv, err = c.fetch(l); err != nil {
			e.sched.leave(l.q)
			return err
		}
	}
	l.computed = time.Now()
	if kv.Prompt != l.q.id {
		e.violations.add(WrongPrompt)
	}
	l.cached = kv.Cached
	e.counts.countTransfer(l.q.promptTokens, l.computed.Sub(l.admitted))
	e.counts.received.Add(uint64(l.q.promptTokens))
	e.sched.start(l.q)
	l.answer(kv.Prompt)
	c.ctx.generates()
	err := l.generate(c.ctx)
	if err != nil {
		return l.aborted(err) // generate has left the scheduler
	}
	e.sched.leave(l.q)
	return nil
}

// generates makes a client that leaves from now on noticed sooner.
func (l *leaving) generates() { l.generating.Store(true) }
