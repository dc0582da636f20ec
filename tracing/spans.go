package tracing

import (
	"math"
	"time"

	"pdrouter/record"
)

// The fields of a Span, and of what is in one.
const (
	spanTraceID    = 1
	spanSpanID     = 2
	spanState      = 3
	spanParent     = 4
	spanName       = 5
	spanKind       = 6
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanEvents     = 11
	spanLinks      = 13
	spanStatus     = 15
	spanFlags      = 16

	eventTime       = 1
	eventName       = 2
	eventAttributes = 3

	linkTraceID = 1
	linkSpanID  = 2
	linkFlags   = 6

	statusMessage = 2
	statusCode    = 3
)

// Kinds and statuses of spans, and what their flags say of the parent.
const (
	internal = 1
	server   = 2
	client   = 3

	failed = 2

	parentIsKnown  = 0x100
	parentIsRemote = 0x200
)

// clientGone is the code with which a request ends whose client left, and noAnswer
// the status of one that got no answer. Nobody has failed then.
const (
	clientGone = "client_gone"
	noAnswer   = 499
)

// A scribe writes the spans of one request that has ended.
type scribe struct {
	*message
	tr     *Trace
	v      *record.View
	origin uint64 // the request's head, in nanoseconds since 1970
	scheme string // by which clients come
}

// all writes every span of the request.
func (s *scribe) all() {
	s.origin = uint64(s.v.At[record.Accept].UnixNano())
	s.request()
	s.accept()
	if len(s.v.Attempts) == 0 && !s.v.At[record.Admit].IsZero() {
		s.neverAdmitted()
	}
	for i := range s.v.Attempts {
		a := scribed{scribe: s, n: i + 1, Attempt: &s.v.Attempts[i], last: i == len(s.v.Attempts)-1}
		a.all()
	}
}

// begin begins a span. It ends with close.
func (s *scribe) begin(n, parent int, name string, kind uint64) (at int) {
	at = s.open(scopeSpansSpans)
	id := s.tr.span(n)
	s.bytes(spanTraceID, s.tr.id[:])
	s.bytes(spanSpanID, id[:])
	flags := uint32(s.tr.flags) | parentIsKnown
	if n == rootSpan {
		if s.tr.parent != (spanID{}) {
			s.bytes(spanParent, s.tr.parent[:])
			flags |= parentIsRemote
		}
	} else {
		id = s.tr.span(parent)
		s.bytes(spanParent, id[:])
	}
	if s.tr.state != "" {
		s.text(spanState, s.tr.state)
	}
	s.text(spanName, name)
	s.varint(spanKind, kind)
	s.fixed32(spanFlags, flags)
	return at
}

// times writes from when to when a span was. What ends before it begins, because
// two goroutines took the times, takes no time.
func (s *scribe) times(from, to time.Time) {
	start := s.nanos(from)
	s.fixed64(spanStart, start)
	s.fixed64(spanEnd, max(start, s.nanos(to)))
}

// nanos returns t as OTLP has it. All times of a request are told from its head
// by the monotonic clock, so that setting the other one tears no span.
func (s *scribe) nanos(t time.Time) uint64 {
	return s.origin + uint64(max(0, t.Sub(s.v.At[record.Accept])))
}

// status says how a span ended that ended with an error of that code; empty: it
// was well, of which nothing is said.
func (s *scribe) status(code, message string) {
	if code == "" {
		return
	}
	s.textAttribute(spanAttributes, "error.type", code)
	if code == clientGone {
		return
	}
	at := s.open(spanStatus)
	if message != "" {
		s.text(statusMessage, message)
	}
	s.varint(statusCode, failed)
	s.close(at)
}

// event begins an event of a span. It ends with close.
func (s *scribe) event(at time.Time, name string) int {
	e := s.open(spanEvents)
	s.fixed64(eventTime, s.nanos(at))
	s.text(eventName, name)
	return e
}

// link writes that a span is what it is because of another one.
func (s *scribe) link(n int) {
	at := s.open(spanLinks)
	id := s.tr.span(n)
	s.bytes(linkTraceID, s.tr.id[:])
	s.bytes(linkSpanID, id[:])
	s.fixed32(linkFlags, uint32(s.tr.flags)|parentIsKnown)
	s.close(at)
}

// request writes the span of the request as a whole.
func (s *scribe) request() {
	v := s.v
	route, operation := endpoint(v.Endpoint)
	at := s.begin(rootSpan, rootSpan, "POST "+route, server)
	s.times(v.At[record.Accept], v.Ended)
	s.textAttribute(spanAttributes, "http.request.method", "POST")
	s.textAttribute(spanAttributes, "http.route", route)
	s.textAttribute(spanAttributes, "url.path", route)
	s.textAttribute(spanAttributes, "url.scheme", s.scheme)
	if v.Status != noAnswer {
		s.wholeAttribute(spanAttributes, "http.response.status_code", int64(v.Status))
	}
	s.wholeAttribute(spanAttributes, "http.response.body.size", v.Bytes)
	if !v.At[record.Admit].IsZero() {
		s.asked(operation)
	}
	s.wholeAttribute(spanAttributes, "gen_ai.usage.input_tokens", v.PromptTokens)
	s.wholeAttribute(spanAttributes, "gen_ai.usage.cache_read.input_tokens", v.CachedTokens)
	s.wholeAttribute(spanAttributes, "gen_ai.usage.output_tokens", v.AnswerTokens)
	s.textAttribute(spanAttributes, "pdrouter.request.id", v.ID)
	s.wholeAttribute(spanAttributes, "pdrouter.attempts", int64(len(v.Attempts)))
	s.outcome(v.Code, v.Message)
	for i := range v.Attempts[:max(0, len(v.Attempts)-1)] {
		s.retry(i+1, &v.Attempts[i])
	}
	s.close(at)
}

// asked writes what is known of a request whose body has been scanned.
func (s *scribe) asked(operation string) {
	v := s.v
	s.textAttribute(spanAttributes, "gen_ai.operation.name", operation)
	s.textAttribute(spanAttributes, "gen_ai.request.model", v.Model)
	if v.MaxTokens > 0 {
		s.wholeAttribute(spanAttributes, "gen_ai.request.max_tokens", int64(v.MaxTokens))
	}
	s.boolAttribute(spanAttributes, "gen_ai.request.stream", v.Streaming)
	if ttft := v.TTFT(); ttft > 0 {
		s.secondsAttribute(spanAttributes, "gen_ai.response.time_to_first_chunk", ttft)
	}
	s.wholeAttribute(spanAttributes, "http.request.body.size", int64(v.BodyBytes))
	s.textAttribute(spanAttributes, "pdrouter.dialect", v.Dialect)
	s.textAttribute(spanAttributes, "pdrouter.class", v.Class)
}

// retry writes that an attempt was followed by another one.
func (s *scribe) retry(n int, a *record.Attempt) {
	e := s.event(a.Ended, "retry")
	s.wholeAttribute(eventAttributes, "pdrouter.attempt", int64(n))
	s.textAttribute(eventAttributes, "error.type", a.Code)
	s.textAttribute(eventAttributes, "pdrouter.failed_leg", a.Leg)
	s.close(e)
}

// accept writes the span in which the body was read and scanned.
func (s *scribe) accept() {
	at := s.begin(acceptSpan, rootSpan, "accept", internal)
	until, code := s.v.At[record.Admit], ""
	if until.IsZero() {
		until, code = s.v.Ended, s.v.Code
	}
	s.times(s.v.At[record.Accept], until)
	s.outcome(code, "")
	s.close(at)
}

// neverAdmitted writes the span of a request that got no pair.
func (s *scribe) neverAdmitted() {
	at := s.begin(number(1, admitSpan), rootSpan, "admit", internal)
	s.times(s.v.At[record.Admit], s.v.Ended)
	s.textAttribute(spanAttributes, "pdrouter.waited_for", s.v.Lacked)
	s.outcome(s.v.Code, "")
	s.close(at)
}

// outcome says how a span ended whose end is the request's. What is answered with
// 4xx is no failure of the server.
func (s *scribe) outcome(code, message string) {
	if s.v.Status >= 400 && s.v.Status < 500 {
		s.textAttribute(spanAttributes, "error.type", code)
		return
	}
	s.status(code, message)
}

// endpoint returns the route of an endpoint, and what GenAI conventions call what
// it does.
func endpoint(label string) (route, operation string) {
	switch label {
	case "completions":
		return "/v1/completions", "text_completion"
	case "generate":
		return "/generate", "text_completion"
	default:
		return "/v1/chat/completions", "chat"
	}
}

// tokens returns a number of tokens; below 0: it is not known.
func tokens(n float64) int64 {
	if math.IsNaN(n) {
		return -1
	}
	return int64(n)
}
