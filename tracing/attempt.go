package tracing

import (
	"time"

	"pdrouter/record"
)

// A scribed is an attempt whose spans are written.
type scribed struct {
	*scribe
	*record.Attempt
	n    int // 1 is the first
	last bool
}

func (a *scribed) all() {
	if a.Ended.IsZero() {
		a.Ended = a.v.Ended // a panic
	}
	a.admit()
	a.choose()
	a.attempt()
	a.prefill()
	a.handOff()
	a.decode()
	a.relay()
}

// admit writes the span in which the request waited for a pair.
func (a *scribed) admit() {
	at := a.part(admitSpan, rootSpan, "admit", internal)
	a.times(a.Leased.Add(-a.Choice.Waited), a.Choice.At)
	if a.n == 1 {
		a.textAttribute(spanAttributes, "pdrouter.waited_for", a.v.Lacked)
	}
	a.close(at)
}

// choose writes the span in which the policy chose it, and what it saw.
func (a *scribed) choose() {
	at := a.part(chooseSpan, rootSpan, "choose", internal)
	a.times(a.Choice.At, a.Leased)
	a.textAttribute(spanAttributes, "pdrouter.choice.reason", a.Choice.Reason)
	for i := range a.Choice.Candidates {
		c := &a.Choice.Candidates[i]
		e := a.event(a.Leased, "candidate")
		a.textAttribute(eventAttributes, "pdrouter.worker.id", c.Worker)
		a.boolAttribute(eventAttributes, "pdrouter.candidate.chosen", c.Chosen)
		a.wholeAttribute(eventAttributes, "pdrouter.candidate.cached_blocks", int64(c.Blocks))
		a.secondsAttribute(eventAttributes, "pdrouter.candidate.wait_seconds", c.Wait)
		a.secondsAttribute(eventAttributes, "pdrouter.candidate.work_seconds", c.Work)
		a.realAttribute(eventAttributes, "pdrouter.candidate.cost", c.Cost)
		a.close(e)
	}
	a.close(at)
}

// attempt writes the span of the try as a whole. It links to the one whose
// failure it is there for.
func (a *scribed) attempt() {
	at := a.part(attemptSpan, rootSpan, "attempt", internal)
	a.times(a.Leased, a.Ended)
	a.textAttribute(spanAttributes, "pdrouter.prefill.worker.id", a.Prefill)
	a.textAttribute(spanAttributes, "pdrouter.decode.worker.id", a.Decode)
	a.wholeAttribute(spanAttributes, "pdrouter.kv.reserved_tokens", tokens(a.Reserved))
	a.textAttribute(spanAttributes, "pdrouter.failed_leg", a.Leg)
	if a.n > 1 {
		a.link(number(a.n-1, attemptSpan))
	}
	a.status(a.Code, "")
	a.close(at)
}

// prefill writes the span of prefill's leg, up to its verdict.
func (a *scribed) prefill() {
	at := a.part(prefillSpan, number(a.n, attemptSpan), "prefill", client)
	a.times(a.Leased, or(a.Prefilled, a.Ended))
	a.leg("prefill", a.Prefill, !a.Prefilled.IsZero())
	a.close(at)
}

// handOff writes the span from prefill's verdict to the first token. Nothing is
// seen of it in an answer in JSON.
func (a *scribed) handOff() {
	if a.Prefilled.IsZero() || !a.v.Streaming {
		return
	}
	at := a.part(handOffSpan, number(a.n, attemptSpan), "hand-off", internal)
	a.times(a.Prefilled, or(a.First, a.Ended))
	if a.First.IsZero() {
		a.status(a.Code, "")
	}
	a.close(at)
}

// decode writes the span of decode's leg. It links to the one that computed what
// it begins with.
func (a *scribed) decode() {
	if a.Sent.IsZero() {
		return
	}
	at := a.part(decodeSpan, number(a.n, attemptSpan), "decode", client)
	a.times(a.Sent, a.Ended)
	a.leg("decode", a.Decode, a.Code == "")
	if !a.First.IsZero() {
		a.close(a.event(a.First, "first token"))
	}
	a.link(number(a.n, prefillSpan))
	a.close(at)
}

// relay writes the span in which the answer was passed on.
func (a *scribed) relay() {
	from := a.First
	if !a.v.Streaming && a.last {
		from = a.v.At[record.Relay]
	}
	if from.IsZero() {
		return
	}
	at := a.part(relaySpan, number(a.n, attemptSpan), "relay", internal)
	a.times(from, a.Ended)
	if a.last && a.v.Streaming {
		a.wholeAttribute(spanAttributes, "pdrouter.stream.reads", int64(a.v.Events))
		a.secondsAttribute(spanAttributes, "pdrouter.stream.longest_gap_seconds", a.v.Longest)
	}
	a.close(at)
}

// part begins a span of the attempt.
func (a *scribed) part(which, parent int, name string, kind uint64) (at int) {
	at = a.begin(number(a.n, which), parent, name, kind)
	a.wholeAttribute(spanAttributes, "pdrouter.attempt", int64(a.n))
	return at
}

// leg writes who served a leg, and how it ended. The one that did not fail first
// was given up for the sake of the other.
func (a *scribed) leg(role, worker string, whole bool) {
	a.textAttribute(spanAttributes, "pdrouter.role", role)
	a.textAttribute(spanAttributes, "pdrouter.worker.id", worker)
	switch {
	case whole:
	case a.Leg == role:
		a.status(a.Code, "")
	default:
		a.boolAttribute(spanAttributes, "pdrouter.given_up", true)
	}
}

func or(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return otherwise
	}
	return t
}
