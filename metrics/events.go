package metrics

import (
	"net/http"
	"strconv"
	"time"
)

// An AnswerEnd is how an answer ended that had begun.
type AnswerEnd string

// The ends of answers.
const (
	Complete    AnswerEnd = "complete"     // with the event that the endpoint ends with
	Truncated   AnswerEnd = "truncated"    // decode died, stalled or ended early
	EngineError AnswerEnd = "engine_error" // the engine sent an error of its own
	EngineAbort AnswerEnd = "engine_abort" // the engine aborted the request
	ClientGone  AnswerEnd = "client_gone"  // the client left, or took nothing
)

// AnswerEnded counts the end of an answer that had begun.
func (m *Metrics) AnswerEnded(end AnswerEnd) { m.answerEnds[end].Inc() }

// A LegOutcome is what a leg said about its worker.
type LegOutcome string

// The outcomes of legs.
const (
	LegOK       LegOutcome = "ok"       // the worker did its job; a 400 is doing its job
	LegFailed   LegOutcome = "failed"   // the worker's fault
	LegHandOff  LegOutcome = "handoff"  // the hand-off failed, and whose fault that is is not known
	LegCanceled LegOutcome = "canceled" // ended by us, because the client left or the other leg failed
)

// LegEnded counts the end of a leg.
func (m *Metrics) LegEnded(role, worker string, o LegOutcome) {
	m.legs.WithLabelValues(role, worker, string(o)).Inc()
}

// LegFailed counts a leg that ended with a server error of its worker, or
// without an answer.
func (m *Metrics) LegFailed(role string, timedOut bool) {
	kind := "backend_error"
	if timedOut {
		kind = "timeout"
	}
	m.legErrors.WithLabelValues(role, connection, kind).Inc()
}

// KeyInHeader counts a request whose routing key a header has.
func (m *Metrics) KeyInHeader() { m.keySources.WithLabelValues("header").Inc() }

// Leased records how long an attempt waited for its pair.
func (m *Metrics) Leased(wait time.Duration) { m.leaseWait.Observe(wait.Seconds()) }

// Upstream counts an engine's answer. The code is that of our error envelope;
// empty for success.
func (m *Metrics) Upstream(status int, code string) {
	if status == http.StatusOK && code == "" {
		m.upstreamOK.Inc()
		return
	}
	m.upstream.WithLabelValues(routerType, strconv.Itoa(status), code).Inc()
}

// LetIn counts a request that was let in, or refused because too much is held.
func (m *Metrics) LetIn(ok bool) {
	if ok {
		m.letIn.Inc()
	} else {
		m.turnedAway.Inc()
	}
}

// KeysDropped counts hand-off keys that a client had set.
func (m *Metrics) KeysDropped(n int) { m.droppedKeys.Add(float64(n)) }

// BootstrapFailed counts a body into which no hand-off keys could be put.
func (m *Metrics) BootstrapFailed() { m.bootstrapFail.Inc() }

// VerdictLate counts an answer that was let go before prefill's verdict.
func (m *Metrics) VerdictLate() { m.lateVerdicts.Inc() }

// Orphaned counts a hand-off that was made ready and that nobody took.
func (m *Metrics) Orphaned() { m.orphans.Inc() }

// Untold counts an engine that was not told that nobody waits for it any more,
// because there was too much to tell at once; it notices by itself, later.
func (m *Metrics) Untold() { m.untold.Inc() }
