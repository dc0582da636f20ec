package metrics

// A CanaryResult is what a canary has shown.
type CanaryResult string

// The results of canaries.
const (
	CanaryOK      CanaryResult = "ok"      // the token came through the pair
	CanaryFailed  CanaryResult = "failed"  // a worker or the hand-off failed
	CanaryUnclear CanaryResult = "unclear" // refused, too busy, or ended by us
)

// CanaryEnded counts a canary. It is counted nowhere else.
func (m *Metrics) CanaryEnded(r CanaryResult) { m.canaries.WithLabelValues(string(r)).Inc() }
