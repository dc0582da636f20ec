package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// errLoadFailed is a KV that could not be loaded, on a leg that then fails.
var errLoadFailed = &failure{http.StatusInternalServerError, "Internal server error"}

// serveVLLM serves a request, whose parsing ended with err.
func (c *call) serveVLLM(err error) {
	if err == nil {
		err = c.vllmCheck()
	}
	if err != nil {
		c.vllmRefuse(err)
		return
	}
	c.e.countKeys(c.r)
	c.vllmStrict()
	if !c.vllmParams() {
		return
	}
	for i := range c.r.prompts {
		l := c.e.newLeg(c.r, i, c.pulls(i))
		l.fault = c.fault.midway()
		c.legs = append(c.legs, l)
	}
	c.name()
	if c.r.stream {
		c.vllmStream()
		return
	}
	for _, l := range c.legs {
		if err := c.vllmRun(l); err != nil {
			if !c.stopped(err) {
				c.vllmFail(err)
			}
			return
		}
	}
	answerJSON(c.w, http.StatusOK, c.vllmBody())
}

// vllmCheck refuses what vLLM refuses.
func (c *call) vllmCheck() error {
	if m := c.r.model; m != "" && m != c.e.cfg.Model {
		return &failure{http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist.", m)}
	}
	if c.r.n > 1 && c.r.temperature == 0 {
		return &refusal{vllm: fmt.Sprintf("n must be 1 when using greedy sampling, got %d.", c.r.n)}
	}
	for _, p := range c.r.prompts {
		if capacity := c.e.sched.capacity(); len(p.tokens) > capacity {
			return promptTooLarge(len(p.tokens), capacity)
		}
	}
	return nil
}

// vllmStrict counts what is wrong with a leg that vLLM serves all the same.
func (c *call) vllmStrict() {
	r, v := c.r, &c.e.violations
	if r.n > 1 {
		v.add(SeveralSamples)
	}
	if c.e.cfg.Role == Decode {
		if r.params != nil && (r.echo || r.promptLogprobs >= 0) {
			v.add(DecodePromptOutput)
		}
		return
	}
	if r.stream {
		v.add(PrefillStreams)
	}
	if r.maxTokens != 1 && r.maxCompletionTokens != 1 || r.maxTokens > 1 || r.maxCompletionTokens > 1 {
		v.add(PrefillTokens)
	}
	if r.minTokens > 1 || r.streamOptions {
		v.add(PrefillOptions)
	}
	if len(r.prompts) > 1 {
		v.add(PrefillBatch)
	}
}

// pulls reports whether the KV of prompt i comes from a prefill engine.
func (c *call) pulls(i int) bool {
	return i == 0 && c.r.params != nil && c.r.params.DoRemotePrefill
}

// vllmParams looks at the hand-off object of a decode leg. It reports false
// when the engine has died of it, or hangs.
func (c *call) vllmParams() bool {
	p := c.r.params
	if p == nil || !p.DoRemotePrefill {
		return true
	}
	switch {
	case len(p.RemoteBlockIDs) == 0 || string(p.RemoteBlockIDs) == "null":
		c.e.violations.add(Killed)
		c.vllmError(http.StatusInternalServerError, "InternalServerError", "",
			"EngineCore encountered an issue. See stack trace (above) for the root cause.")
		_ = http.NewResponseController(c.w).Flush()
		c.e.die()
		return false
	case p.RemoteRequestID == nil:
		c.e.violations.add(NoRequestID)
		<-c.ctx.Done()
		if errors.Is(context.Cause(c.ctx), errGone) {
			c.e.kill()
		}
		panic(http.ErrAbortHandler)
	case p.RemoteEngineID == nil || p.RemoteHost == nil || p.RemotePort == nil:
		// vLLM logs a warning and computes the prompt itself.
		c.e.violations.add(BadParams)
		c.r.params = nil
	}
	return true
}

// die lets the answer on its way out, and kills the engine.
func (e *Engine) die() { time.AfterFunc(20*time.Millisecond, e.kill) }

// vllmRun runs one leg to the end of its answer.
func (c *call) vllmRun(l *leg) error {
	err := c.vllmAnswer(l)
	l.finished = time.Now()
	c.e.count(l, err)
	return err
}

// vllmAnswer gets blocks, then the KV, then generates. A prefill leg's blocks
// are kept afterwards.
func (c *call) vllmAnswer(l *leg) error {
	e := c.e
	remote := c.pulls(l.index)
	if err := c.vllmEnter(l, remote); err != nil {
		return err
	}
	l.admitted = time.Now()
	id := l.q.id
	l.cached = l.q.firstCached
	var err error
	if remote {
		id, err = c.vllmPull(l)
	} else {
		err = e.sched.compute(c.ctx, l.q)
	}
	if err != nil {
		return err
	}
	l.computed = time.Now()
	l.answer(id)
	c.ctx.generates()
	if err := l.generate(c.ctx); err != nil {
		return err // generate has left the scheduler
	}
	if e.cfg.Role == Prefill && c.r.params != nil && c.r.params.DoRemoteDecode {
		l.held = e.holds.keep(l.rid, l.q)
		return nil
	}
	e.sched.leave(l.q)
	return nil
}

// vllmEnter waits for blocks. While it waits the lease of prefill's blocks is
// renewed; if it gives up they are freed.
func (c *call) vllmEnter(l *leg, remote bool) error {
	if !remote {
		return c.e.sched.enter(c.ctx, l.q)
	}
	if c.e.sched.try(l.q) {
		return nil
	}
	stop := c.heartbeats()
	err := c.e.sched.await(c.ctx, l.q)
	stop()
	if err != nil {
		c.release()
	}
	return err
}

// vllmPull gets the KV of a leg, whose sequence has blocks for it, and returns
// which prompt it is of. When it fails, the sequence is out.
func (c *call) vllmPull(l *leg) (id uint64, err error) {
	e := c.e
	kv, err := c.pull()
	switch {
	case err == nil && !kv.Gone:
		e.counts.countTransfer(l.q.promptTokens-l.q.firstCached, time.Since(l.admitted))
		e.counts.received.Add(uint64(l.q.promptTokens - l.q.firstCached))
		if kv.Prompt != l.q.id {
			e.violations.add(WrongPrompt)
			l.q.id = kv.Prompt
		}
		e.sched.start(l.q)
		l.cached = l.q.promptTokens
		return l.q.id, nil
	case errors.Is(err, errLoadFailed) && e.cfg.LoadFailure == "fail":
		e.counts.failedTransfers.Add(1)
		e.sched.leave(l.q)
		return 0, err
	case err != nil && !errors.Is(err, errLoadFailed):
		e.sched.leave(l.q)
		return 0, err
	}
	e.counts.recomputes.Add(1)
	if err := e.sched.again(c.ctx, l.q); err != nil {
		return 0, err
	}
	return l.q.id, e.sched.compute(c.ctx, l.q)
}

// pull asks prefill for the blocks that the body names.
func (c *call) pull() (kv pulledKV, err error) {
	p := c.r.params
	if c.e.faults.cutOff(c.sideAddr()) {
		err = errUnreachable
	} else {
		err = c.side(c.ctx, pullPath, &kv)
	}
	addr := *p.RemoteEngineID + "@" + c.sideAddr()
	switch {
	case err == nil && !kv.WrongEngine:
		c.e.known.Store(addr, true)
		return kv, nil
	case c.ctx.Err() != nil:
		return kv, context.Cause(c.ctx)
	}
	if _, known := c.e.known.Load(addr); !known {
		// It tries to shake hands for as long as it may; with an engine that it
		// knew, the connection's end is noticed at once.
		if err := sleep(c.ctx, c.e.cfg.HandshakeTimeout); err != nil {
			return kv, err
		}
	}
	return kv, errLoadFailed
}

// sideAddr returns where the body says that prefill's side channel is.
func (c *call) sideAddr() string {
	return net.JoinHostPort(*c.r.params.RemoteHost, strconv.Itoa(*c.r.params.RemotePort))
}

// side asks the side channel that the body names.
func (c *call) side(ctx context.Context, path string, into any) error {
	p := c.r.params
	body, err := json.Marshal(pull{EngineID: *p.RemoteEngineID, RequestID: *p.RemoteRequestID, BlockIDs: lastGroup(p.RemoteBlockIDs)})
	if err != nil {
		return err
	}
	return c.e.ask(ctx, "http://"+c.sideAddr()+path, string(body), into)
}

// lastGroup returns the block ids of the last KV cache group; older engines
// send one flat list.
func lastGroup(raw json.RawMessage) []int {
	var groups [][]int
	if json.Unmarshal(raw, &groups) == nil && len(groups) > 0 {
		return groups[len(groups)-1]
	}
	var flat []int
	_ = json.Unmarshal(raw, &flat)
	return flat
}

// heartbeats renews the lease of prefill's blocks until stop is called.
func (c *call) heartbeats() (stop func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for sleep(ctx, c.e.cfg.Lease/6) == nil {
			_ = c.side(ctx, heartbeatPath, &struct{}{})
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// release tells prefill that its blocks are not wanted any more.
func (c *call) release() {
	ctx, cancel := context.WithTimeout(c.e.base, time.Second)
	defer cancel()
	_ = c.side(ctx, releasePath, &struct{}{})
}
