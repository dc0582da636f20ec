package router

import (
	"net/http"
	"strings"

	"pdrouter/exchange"
	"pdrouter/tracing"
	"pdrouter/workers"
)

// maxField bounds a client's header that goes up, in bytes. Engines refuse
// heads that are not much longer, and some by closing the connection, which
// would look like their own fault (I7).
const maxField = 8 << 10

// legHeader returns the headers of a leg to w. It is an allow-list (I6): what
// is not named here never reaches an engine. Accept-Encoding is never named:
// a compressed answer could be neither judged nor relayed token by token.
func (c *call) legHeader(w *workers.Worker, attemptID string) []exchange.Field {
	fields := make([]exchange.Field, 0, 8)
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, exchange.Field{Name: name, Value: value})
		}
	}
	add("Content-Type", "application/json")
	add("X-Request-Id", attemptID)
	add("Authorization", c.authorization(w))
	parent, state := c.traceOf(w.Role)
	add("Traceparent", parent)
	add("Tracestate", state)
	for _, name := range c.cfg.RoutingKeyHeaders {
		add(name, bounded(c.r.Header.Get(name)))
	}
	return fields
}

// traceOf returns what is told of the request's trace to a worker: our span of
// the leg, or else what the client sent.
func (c *call) traceOf(role workers.Role) (parent, state string) {
	leg := tracing.Prefill
	if role == workers.Decode {
		leg = tracing.Decode
	}
	if parent, state = c.trace.Leg(c.attempts, leg); parent == "" {
		return traceHeaders(c.r)
	}
	return parent, state
}

// traceHeaders returns what a client sent of its trace, if it makes sense.
func traceHeaders(r *http.Request) (parent, state string) {
	if parent = r.Header.Get("Traceparent"); len(parent) > maxField || !tracing.Valid(parent) {
		return "", ""
	}
	return parent, bounded(strings.Join(r.Header.Values("Tracestate"), ","))
}

// bounded returns a client's value, or nothing if it is too long for an engine.
func bounded(value string) string {
	if len(value) > maxField {
		return ""
	}
	return value
}

// authorization returns what goes up as Authorization: the worker's own key if
// one is configured, else the client's, unless that was meant for us.
func (c *call) authorization(w *workers.Worker) string {
	key := w.Key()
	switch {
	case key != "":
		return "Bearer " + key
	case len(c.cfg.APIKeys) > 0:
		return ""
	default:
		return bounded(c.r.Header.Get("Authorization"))
	}
}

// relayHeader copies to the client's answer those of an engine's headers that are
// named below, unless the engine says that they speak of its connection. All
// others stay here: they may name a host, as X-Served-By does, or speak for the
// server that the client talks to.
func relayHeader(to http.Header, from exchange.Header) {
	for _, f := range from {
		if name := http.CanonicalHeaderKey(f.Name); isRelayed(name) && !isOfConnection(from, name) {
			to[name] = append(to[name], f.Value)
		}
	}
}

// isOfConnection reports whether an engine's Connection header names another.
func isOfConnection(from exchange.Header, name string) bool {
	for value := range from.Values("Connection") {
		for option := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(option), name) {
				return true
			}
		}
	}
	return false
}

// isRelayed reports whether an engine's header goes down to the client: those that
// say what the body is, how it may be kept, and what the engine took for it.
func isRelayed(name string) bool {
	switch name {
	case "Content-Type", "Content-Encoding", "Content-Language", "Cache-Control", "Vary", "Retry-After", "X-Accel-Buffering",
		"Openai-Processing-Ms", "Openai-Model", "Openai-Version":
		return true
	}
	return strings.HasPrefix(name, "X-Ratelimit-")
}
