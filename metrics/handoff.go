package metrics

import "github.com/prometheus/client_golang/prometheus"

// A HandOffEnd is what became of the hand-off of one attempt.
type HandOffEnd string

// The ends of hand-offs.
const (
	HandOffDone    HandOffEnd = "done"    // decode had the prompt's KV blocks; what came later is another matter
	HandOffMissing HandOffEnd = "missing" // prefill gave nothing to hand over: decode computed the prompt again (I10)
	HandOffFailed  HandOffEnd = "failed"  // a leg failed before it was done
	HandOffLeft    HandOffEnd = "left"    // nobody waited for it any more: the client left, or the daemon stopped
)

// dialects are the names of all dialects, as package transfer has them.
func dialects() []string { return []string{"sglang", "vllm-nixl"} }

func newHandOffs(reg prometheus.Registerer) *prometheus.CounterVec {
	c := counters("pdrouter_handoffs_total",
		"Hand-offs, one for each attempt, by what became of them: done, missing (prefill gave nothing to hand over, so decode computed the prompt again), "+
			"failed (a leg failed before it was done) or left (the client had left). Attempts that an engine refused, as the client's fault or because it has too much to do, are none.",
		"dialect", "outcome")
	for _, dialect := range dialects() {
		for _, end := range []HandOffEnd{HandOffDone, HandOffMissing, HandOffFailed, HandOffLeft} {
			c.WithLabelValues(dialect, string(end))
		}
	}
	reg.MustRegister(c)
	return c
}

// HandOffEnded counts what became of the hand-off of one attempt.
func (m *Metrics) HandOffEnded(dialect string, end HandOffEnd) {
	m.handOffs.WithLabelValues(dialect, string(end)).Inc()
	if end == HandOffMissing {
		m.transferFail.Inc()
	}
}
