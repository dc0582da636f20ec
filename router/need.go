package router

import (
	"pdrouter/policy"
	"pdrouter/record"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// A fingerprint is the memory that one of a prompt takes. It is used again.
type fingerprint struct {
	model  []byte
	seed   [][]byte
	pieces [][]byte // of the body
	chain  []uint64
	prompt workers.Prompt
	choice workers.Explanation
	seen   []record.Candidate
}

// mostKept is how long its lists may be to be used again.
const mostKept = 16 << 10

// need returns what the request asks of a pair. The memory of its chain is given
// back by freePrint.
func (h *Handler) need(c *call, req *transfer.Request) workers.Need {
	p, _ := h.prints.Get().(*fingerprint)
	c.print = p
	p.model = append(p.model[:0], req.Model()...)
	p.seed = req.Seed(append(p.seed[:0], p.model))
	p.pieces = req.Prompt(p.pieces[:0])
	n := workers.Need{Model: req.Model(), Prompt: workers.Prompt{Bytes: transfer.Length(p.pieces)}, Answers: req.Batch()}
	n.Sticky, n.Named = h.hintOf(c, req)
	n.Class, n.Tenant = int(h.classOf(c, req)), h.tenantOf(c)
	if most, ok := req.MaxTokens(); ok {
		n.MaxTokens = int(max(most, 0))
	}
	if block := h.registry.BlockBytes(); block > 0 {
		p.chain = policy.Chain(p.chain[:0], p.seed, p.pieces, block)
		n.Prompt.Chain, n.Prompt.Block, n.Key = p.chain, block, policy.KeyOf(p.chain, block)
	} else {
		n.Key = policy.Take(p.seed, p.pieces).Key
	}
	p.prompt, n.Explain = n.Prompt, &p.choice
	clear(p.seed) // of the body, which is not ours for longer
	clear(p.pieces)
	return n
}

// freePrint gives back the fingerprint of c, if it has one. Its legs have ended.
func (h *Handler) freePrint(c *call) {
	if p := c.print; p != nil && cap(p.pieces) <= mostKept && cap(p.chain) <= mostKept {
		h.prints.Put(p)
	}
	c.print = nil
}

// expect notes what the policy expects of the attempt, and counts its choice.
func (a *attempt) expect(pair *workers.Pair) {
	a.predicted = -1
	e := &pair.Expect
	if e.Ticket == 0 {
		return
	}
	p := &a.call.print.prompt
	if p.Bytes > 0 {
		a.predicted = min(float64(e.Blocks*p.Block)/float64(p.Bytes), 1)
	}
	if e.Most >= 0 {
		a.h.met.Chosen(len(p.Chain), e.Blocks, e.Most)
	}
}

// countFound counts how much of the prompt prefill had in its cache, beside what
// was believed.
func (a *attempt) countFound() {
	u := &a.prefillUsage
	a.h.met.PrefillFound(a.legs[workers.Prefill].lease.Worker.URL, u.Prompt, a.predictedTokens(), u.Cached)
}

// predictedTokens returns how much of the prompt prefill was believed to have in
// its cache, in tokens as the engine counts them; -1: that is not known.
func (a *attempt) predictedTokens() int64 {
	if a.predicted < 0 || a.prefillUsage.Prompt < 0 {
		return -1
	}
	return int64(a.predicted * float64(a.prefillUsage.Prompt))
}
