package router

import (
	"net/http"
	"net/textproto"
	"slices"
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

// relayHeader copies an engine's headers to the client's answer, but for those
// that speak of the connection, of a framing that we make anew, or of the
// engine as if it were the server that the client talks to.
func relayHeader(to, from http.Header) {
	own := strings.Split(strings.Join(from.Values("Connection"), ","), ",")
	for i := range own {
		own[i] = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(own[i]))
	}
	for name, values := range from {
		if isRelayed(name) && !slices.Contains(own, name) {
			to[name] = append(to[name], values...)
		}
	}
}

func isRelayed(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Date", "X-Request-Id",
		"Server", "Via", "Alt-Svc", "Set-Cookie", "Strict-Transport-Security", "Clear-Site-Data":
		return false
	}
	return !strings.HasPrefix(name, "Access-Control-")
}
