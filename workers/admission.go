package workers

import (
	"errors"
	"fmt"
	"time"
)

// An Admission bounds what engines are given, and how much waits for it.
type Admission struct {
	// MaxInFlight bounds the requests on engines at a time, and Rate those that
	// are begun in a second. 0: they are not bounded, which is the default
	// (--max-concurrent-requests, --rate-limit-tokens-per-second).
	MaxInFlight int
	Rate        float64

	// QueueSize is how many requests for one model may wait, and QueueTimeout
	// how long. Defaults 1024 and 60 s (--queue-size, --queue-timeout-secs).
	QueueSize    int
	QueueTimeout time.Duration

	// PrefillMaxInFlight bounds the requests on one prefill worker, which end
	// there when it has answered. 0, the default: it is not bounded. If it is,
	// PrefillQueueSize and PrefillQueueTimeout hold for those that wait for
	// prefill, 100 and 60 s by default (--prefill-max-inflight-requests-per-worker
	// and so on).
	PrefillMaxInFlight  int
	PrefillQueueSize    int
	PrefillQueueTimeout time.Duration

	// DecodeWait is how long a request may wait for room on a decode worker.
	// Default 60 s (--pd-admission-wait-secs).
	DecodeWait time.Duration
}

// DefaultAdmission returns the bounds of a daemon started without flags.
func DefaultAdmission() Admission {
	return Admission{
		QueueSize: 1024, QueueTimeout: 60 * time.Second,
		PrefillQueueSize: 100, PrefillQueueTimeout: 60 * time.Second,
		DecodeWait: 60 * time.Second,
	}
}

// validate reports every fault of a.
func (a Admission) validate() []error {
	var faults []error
	for name, n := range map[string]int{
		"max-concurrent-requests": a.MaxInFlight, "queue-size": a.QueueSize,
		"prefill-max-inflight-requests-per-worker": a.PrefillMaxInFlight, "prefill-queue-size": a.PrefillQueueSize,
	} {
		if n < 0 {
			faults = append(faults, fmt.Errorf("%s: must not be negative, is %d", name, n))
		}
	}
	if !(a.Rate >= 0) {
		faults = append(faults, fmt.Errorf("rate-limit-tokens-per-second: must not be negative, is %v", a.Rate))
	}
	if a.QueueTimeout <= 0 || a.PrefillQueueTimeout <= 0 || a.DecodeWait <= 0 {
		faults = append(faults, errors.New("queue-timeout-secs, prefill-queue-timeout-secs and pd-admission-wait-secs: must be above 0"))
	}
	return faults
}

// most returns how many requests may wait in a shortage, and for how long.
func (a *Admission) most(s Shortage) (n int, d time.Duration) {
	switch {
	case s == OfDecode:
		return a.QueueSize, a.DecodeWait
	case s == OfPrefill && a.PrefillMaxInFlight > 0:
		return min(a.QueueSize, a.PrefillQueueSize), a.PrefillQueueTimeout
	default:
		return a.QueueSize, a.QueueTimeout
	}
}

// A meter lets through so many requests in a second, and as many at once.
type meter struct {
	left float64
	at   time.Time // when that was so
}

// pass reports whether one more may go, and if not, when the next may.
func (m *meter) pass(rate float64, now time.Time) (ok bool, again time.Time) {
	burst := max(rate, 1)
	if m.at.IsZero() {
		m.left = burst
	} else {
		m.left = min(m.left+rate*max(now.Sub(m.at).Seconds(), 0), burst)
	}
	m.at = later(m.at, now) // who waited for the lock may come with an earlier time
	if m.left >= 1 {
		return true, time.Time{}
	}
	return false, now.Add(time.Duration((1 - m.left) / rate * float64(time.Second)))
}

// take counts one that goes.
func (m *meter) take() { m.left-- }
