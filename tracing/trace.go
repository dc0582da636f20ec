package tracing

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strings"
)

type (
	traceID [16]byte
	spanID  [8]byte
)

// The flags of a traceparent that are passed on.
const (
	sampledFlag = 0x01
	knownFlags  = 0x03 // that, and that the trace ID is random
)

// A Trace is what must be known of a request's trace while the request runs. The
// zero Trace is none: what the client sent of its own goes up as it is.
type Trace struct {
	id      traceID
	root    spanID // of our span of the request
	parent  spanID // the client's; zero: it sent none
	flags   byte
	state   string // the client's tracestate, which goes on as it is
	present bool
}

// A Leg is one of an attempt's two requests to engines.
type Leg int

// The legs.
const (
	Prefill Leg = iota
	Decode
)

// Begin returns the trace of a request whose client sent a traceparent and a
// tracestate, or none. A malformed traceparent is none. If the client's trace is
// not sampled, ours is the zero Trace.
func (t *Tracer) Begin(parent, state string) Trace {
	if t == nil {
		return Trace{}
	}
	tr := Trace{present: true, root: newSpanID()}
	if !Valid(parent) {
		binary.BigEndian.PutUint64(tr.id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(tr.id[8:], rand.Uint64()|1) // not zero
		if chosen(tr.id, t.ratio) {
			tr.flags = sampledFlag
		}
		return tr
	}
	var flags [1]byte
	// Valid has seen that these are hexadecimal digits.
	_, _ = hex.Decode(tr.id[:], []byte(parent[3:35]))
	_, _ = hex.Decode(tr.parent[:], []byte(parent[36:52]))
	_, _ = hex.Decode(flags[:], []byte(parent[53:55]))
	if tr.flags = flags[0] & knownFlags; tr.flags&sampledFlag == 0 {
		return Trace{} // a span that nobody keeps is no good parent
	}
	tr.state = strings.Clone(state) // it outlives the other headers
	return tr
}

// chosen reports whether a trace is among that part of all. OpenTelemetry's
// TraceIDRatioBased goes by the same bits.
func chosen(id traceID, ratio float64) bool {
	return ratio >= 1 || float64(binary.BigEndian.Uint64(id[8:])>>1) < ratio*math.MaxInt64
}

// Leg returns the traceparent and the tracestate for a leg of an attempt, of
// which the first one is 1. An empty traceparent means that the client's own goes
// up as it is.
func (tr *Trace) Leg(attempt int, leg Leg) (parent, state string) {
	if !tr.present {
		return "", ""
	}
	return tr.parentOf(legSpan(attempt, leg)), tr.state
}

// parentOf returns the traceparent that names a span of tr.
func (tr *Trace) parentOf(n int) string {
	const form = "00-00112233445566778899aabbccddeeff-0011223344556677-00"
	var b [len(form)]byte
	copy(b[:], form)
	id := tr.span(n)
	hex.Encode(b[3:], tr.id[:])
	hex.Encode(b[36:], id[:])
	hex.Encode(b[53:], []byte{tr.flags})
	return string(b[:])
}

func (tr *Trace) sampled() bool { return tr.flags&sampledFlag != 0 }

// The numbers of a request's spans.
const (
	rootSpan = iota
	acceptSpan
	firstAttempt // and from here on spansOfAttempt for each
)

// The numbers of an attempt's spans.
const (
	admitSpan = iota
	chooseSpan
	attemptSpan
	prefillSpan
	handOffSpan
	decodeSpan
	relaySpan
	spansOfAttempt
)

// number returns the number of a span of an attempt, of which the first is 1.
func number(attempt, which int) int { return firstAttempt + (attempt-1)*spansOfAttempt + which }

func legSpan(attempt int, leg Leg) int {
	if leg == Prefill {
		return number(attempt, prefillSpan)
	}
	return number(attempt, decodeSpan)
}

// span returns the ID of a span by its number. No two numbers give the same.
func (tr *Trace) span(n int) spanID {
	if n == rootSpan {
		return tr.root
	}
	var id spanID
	binary.BigEndian.PutUint64(id[:], scatter(binary.BigEndian.Uint64(tr.root[:]))+uint64(n))
	if id == (spanID{}) {
		return spanID{0: 0xff} // as unlikely as any other
	}
	return id
}

func newSpanID() (id spanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) // not zero
	return id
}

// scatter is the last step of splitmix64: it maps numbers one to one, far from
// where they were.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Valid reports whether s is a W3C traceparent of version 00 or later: two, 32,
// 16 and two lower-case hexadecimal digits, IDs not all zero.
func Valid(s string) bool {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || len(s) > 55 && s[55] != '-' {
		return false
	}
	for _, part := range [...]string{s[:2], s[3:35], s[36:52], s[53:55]} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return s[:2] != "ff" && (len(s) == 55 || s[:2] != "00") && strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}
