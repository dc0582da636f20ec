package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A retries counts attempts after the first. One request has two legs, so smg
// counts each of them under both roles.
type retries struct {
	made      *prometheus.CounterVec
	exhausted *prometheus.CounterVec
	backoff   *prometheus.HistogramVec
	denied    prometheus.Counter
	resent    prometheus.Counter
}

func newRetries(reg prometheus.Registerer) retries {
	r := retries{
		made:      counters("smg_worker_retries_total", "Attempts after the first, by role and endpoint.", "worker_type", "endpoint"),
		exhausted: counters("smg_worker_retries_exhausted_total", "Requests that failed after more than one attempt, by role and endpoint.", "worker_type", "endpoint"),
		backoff: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "smg_worker_retry_backoff_seconds", Help: "Wait before an attempt after the first, by how many attempts there had been.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"attempt"}),
		denied: counter("pdrouter_retries_denied_total", "Attempts that were not made because the budget for them was used up."),
	}
	resent := counters("smg_router_upstream_send_retries_total", "Legs sent once more, in a new attempt, because the pooled connection of the first was closed by its engine.", "router_type")
	r.resent = resent.WithLabelValues(routerType)
	reg.MustRegister(resent, r.made, r.exhausted, r.backoff, r.denied)
	return r
}

// Retried counts an attempt after so many others, and the wait before it.
func (m *Metrics) Retried(endpoint string, attempts int, wait time.Duration) {
	for _, role := range [...]string{"prefill", "decode"} {
		m.retries.made.WithLabelValues(role, endpoint).Inc()
	}
	m.retries.backoff.WithLabelValues(strconv.Itoa(min(attempts, maxAttemptLabel))).Observe(wait.Seconds())
}

// maxAttemptLabel bounds the values of the label attempt.
const maxAttemptLabel = 10

// Resent counts an attempt that was made once more because a pooled connection
// had been closed.
func (m *Metrics) Resent() { m.retries.resent.Inc() }

// RetriesExhausted counts a request that failed after more than one attempt.
func (m *Metrics) RetriesExhausted(endpoint string) {
	for _, role := range [...]string{"prefill", "decode"} {
		m.retries.exhausted.WithLabelValues(role, endpoint).Inc()
	}
}

// RetryDenied counts an attempt that was not made because the budget was used
// up.
func (m *Metrics) RetryDenied() { m.retries.denied.Inc() }
