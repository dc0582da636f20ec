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
