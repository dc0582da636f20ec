package workers

import (
	"fmt"
	"time"
)

// A ShedError reports that a request was refused because too many wait, or it
// waited for too long.
type ShedError struct {
	Shortage   Shortage
	TimedOut   bool // else: too many wait
	RetryAfter time.Duration
}

// Error implements error.
func (e *ShedError) Error() string {
	if e.TimedOut {
		return fmt.Sprintf("it waited too long (shortage of %s)", e.Shortage)
	}
	return fmt.Sprintf("too many requests wait (shortage of %s)", e.Shortage)
}

// expireLocked refuses those in line that have waited too long. It returns when
// the next one will have.
func (r *Registry) expireLocked(q *queue, now time.Time) (again time.Time) {
	_, most := r.cfg.Admission.most(q.lacks)
	for w := q.line.oldest(); w != nil; w = q.line.oldest() {
		if end := w.Since.Add(most); end.After(now) {
			return end
		}
		q.leaveLine(w)
		w.granted <- q.shed(true, now)
	}
	return time.Time{}
}

// shed returns the error for a request of q that is not let in.
func (q *queue) shed(timedOut bool, now time.Time) error {
	q.flow.press(now, !timedOut || q.flow.pressed)
	return &ShedError{Shortage: q.lacks, TimedOut: timedOut, RetryAfter: q.flow.retryAfter(now, q.line.waiting)}
}
