package router

import (
	"pdrouter/policy"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// need returns what the request asks of a pair. The memory of its chain is
// given back by freeChain.
func (h *Handler) need(c *call, req *transfer.Request) workers.Need {
	var seed, prompt [8][]byte
	model := []byte(req.Model())
	salts, pieces := req.Seed(append(seed[:0], model)), req.Prompt(prompt[:0])
	n := workers.Need{Model: req.Model(), Prompt: workers.Prompt{Bytes: req.PromptBytes()}}
	if !h.registry.ReadsPrompts() {
		n.Key = policy.Take(salts, pieces).Key
		return n
	}
	c.chain, _ = h.chains.Get().(*[]uint64)
	*c.chain = policy.Chain((*c.chain)[:0], salts, pieces)
	n.Prompt.Chain, n.Key = *c.chain, policy.KeyOf(*c.chain)
	return n
}

// freeChain gives back the chain of c, if it has one. Its legs have ended.
func (h *Handler) freeChain(c *call) {
	if c.chain != nil {
		h.chains.Put(c.chain)
		c.chain = nil
	}
}

// expect notes what the policy expects of the attempt, and counts its choice.
func (a *attempt) expect(pair *workers.Pair) {
	a.predicted = -1
	e := &pair.Expect
	if e.Ticket == 0 {
		return
	}
	if bytes := a.req.PromptBytes(); bytes > 0 {
		a.predicted = min(float64(e.Blocks)*policy.BlockBytes/float64(bytes), 1)
	}
	if e.Most >= 0 && a.call.chain != nil {
		a.h.met.Chosen(len(*a.call.chain), e.Blocks, e.Most)
	}
}

// countFound counts how much of the prompt prefill had in its cache, beside what
// was believed.
func (a *attempt) countFound() {
	prompt, predicted := a.prefillUsage.Prompt, int64(-1)
	if a.predicted >= 0 {
		predicted = int64(a.predicted * float64(prompt))
	}
	a.h.met.PrefillFound(a.legs[workers.Prefill].lease.Worker.URL, prompt, predicted, a.prefillUsage.Cached)
}
