package router

import (
	"time"

	"pdrouter/record"
	"pdrouter/workers"
)

// closeRecord closes the record of c.
func (h *Handler) closeRecord(c *call) {
	end := record.End{At: time.Now(), Status: c.status(), Bytes: c.w.bytes, Keep: c.keep}
	if c.fault != nil {
		end.Code, end.Reason, end.Message = c.fault.Code, c.fault.Error(), c.fault.Message
	}
	traced := h.tracer.Ending(&c.trace)
	if traced != nil {
		end.Copy = &traced.View
	}
	h.book.End(c.rec, &end)
	h.tracer.Send(traced)
}

// recordNeed records what the request asks for. From now on it waits for a pair.
func (t *trial) recordNeed() {
	c, n := t.call, &t.need
	c.rec.Asks(time.Now(), record.Asked{
		Model: shortened(c.model, maxShown), Endpoint: endpointLabel(t.req.Endpoint()), Dialect: c.dialect, Class: Class(n.Class).String(),
		Streaming: c.streaming, MaxTokens: n.MaxTokens, BodyBytes: len(c.body), PromptBytes: n.Prompt.Bytes,
	})
}

// recordLease records the pair of the attempt that begins, and how it was
// chosen.
func (t *trial) recordLease(now time.Time, waited time.Duration) {
	p := &t.pair
	prefill, decode := p.Prefill.Worker, p.Decode.Worker
	print, x := t.call.print, t.need.Explain
	print.seen = candidates(print.seen[:0], x, p)
	choice := record.Choice{
		Reason: x.Reason, DecodeReason: x.DecodeReason, Units: x.Units, Waited: waited, At: p.Served, Candidates: print.seen, Unlisted: x.Unlisted,
		Blocks: len(t.need.Prompt.Chain), BlockBytes: t.need.Prompt.Block,
	}
	t.call.rec.Leased(record.Attempt{
		Prefill: prefill.ID, PrefillURL: prefill.URL, Decode: decode.ID, DecodeURL: decode.URL, Reserved: p.Reserved, Leased: now, Choice: choice,
	})
	if p.Waited {
		t.call.rec.Lacks(p.Lacked.String())
	}
}

// candidates adds to out what x says of the workers that a choice saw.
func candidates(out []record.Candidate, x *workers.Explanation, p *workers.Pair) []record.Candidate {
	for i := range x.Candidates {
		c := &x.Candidates[i]
		out = append(out, record.Candidate{
			Worker: c.Worker.ID, Role: c.Worker.Role.String(), Chosen: c.Worker == p.Prefill.Worker || c.Worker == p.Decode.Worker,
			InFlight: c.InFlight, Blocks: c.Blocks, Wait: c.Wait, Work: c.Work, Cost: c.Cost, LeftOut: c.LeftOut,
		})
	}
	return out
}

// recordOver records how the attempt ended.
func (c *call) recordOver(err error) {
	now := time.Now()
	if err == nil {
		c.rec.Over(now, "", "", "")
		return
	}
	e := errorFor(err)
	c.rec.Over(now, e.Leg, e.Code, e.Error())
}
