package health

import (
	"time"

	"github.com/sony/gobreaker/v2"

	"pdrouter/workers"
)

// relieve shortens the open time of breakers whose worker has become the last of
// its role since they opened, because the others were removed, or broke too. It
// opened for minutes when there was somebody else; now everything would be
// refused for as long.
func (j *Judge) relieve(statuses []workers.Status, now time.Time) {
	for i := range statuses {
		s := &statuses[i]
		if s.State != workers.Ready {
			continue
		}
		d := j.ward(s.Worker)
		if d.breaker.opensAfter(now.Add(lastOpen+pastExpiry)) && j.isLast(s.Worker) && d.breaker.shorten(now) {
			d.breaks.flush()
		}
	}
}

// opensAfter reports whether it is open, and stays so until after t.
func (b *breaker) opensAfter(t time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opensAfterLocked(t)
}

func (b *breaker) opensAfterLocked(t time.Time) bool {
	return b.state == gobreaker.StateOpen && b.until.After(t)
}

// shorten makes what is left of the open time as short as for the last worker of
// a role. Of openings that overtook it, it changes nothing.
func (b *breaker) shorten(now time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.opensAfterLocked(now.Add(lastOpen + pastExpiry)) {
		return false
	}
	b.last = true
	b.shutLocked(lastOpen, "it is tried soon, because nobody else is left")
	return true
}
