package router

import (
	"pdrouter/policy"
	"pdrouter/transfer"
)

// hintOf returns what a client says about which requests belong together, as a
// hash; 0: it says nothing. Named tells whether it means one session or routing
// key, and not all that a user or an application asks. In this order: a header
// of Config.RoutingKeyHeaders, then what is in the body, the narrowest first
// (see transfer.Request.Hint). Equal values are equal wherever they stand, so
// that a gateway may move one from the body to the header.
//
// A value that is too long for an engine's head counts for nothing, in the body
// too. It is never logged.
func (h *Handler) hintOf(c *call, req *transfer.Request) (sticky uint64, named bool) {
	for _, name := range c.cfg.RoutingKeyHeaders {
		if value := bounded(c.r.Header.Get(name)); value != "" {
			h.met.KeyInHeader()
			return policy.StickyOf(value), true
		}
	}
	value, session := req.Hint()
	if len(value) == 0 || len(value) > maxField {
		return 0, false
	}
	return policy.StickyOf(value), session
}
