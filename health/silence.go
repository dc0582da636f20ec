package health

import (
	"errors"
	"fmt"
	"time"

	"pdrouter/workers"
)

// unread notes that a worker gave no report. One that has given some before is
// missed: it may have stopped.
func (j *Judge) unread(d *ward, err error) {
	fault, _ := errors.AsType[*workers.Fault](err)
	switch {
	case fault == nil || fault.Kind != workers.Unreachable:
		d.lives(time.Now()) // it answered something
	case d.reports.Load():
		d.missed.Store(fault)
	}
}

// findSilent bars the workers whose reports are missed and of which nothing
// else was heard for long enough either. A bar that is not renewed ends.
func (j *Judge) findSilent(statuses []workers.Status, now time.Time) {
	if j.cfg.StaleTime <= 0 {
		return
	}
	for i := range statuses {
		if statuses[i].State != workers.Ready {
			continue
		}
		d := j.ward(statuses[i].Worker)
		fault := d.missed.Load()
		if fault == nil || d.silence(now) < j.cfg.StaleTime {
			continue
		}
		since := now.Add(-d.silence(now)).UTC().Format(time.TimeOnly + " MST")
		j.barSilent(d, now, fmt.Sprintf("not a word from it since %s: %s", since, brief(fault.Err)))
	}
}

// lostTouch bars a worker whose connection failed after it had been silent.
func (j *Judge) lostTouch(d *ward, o outcome, now time.Time) {
	if j.cfg.StallTime > 0 && d.silence(now) >= j.cfg.StallTime {
		j.barSilent(d, now, "not a word from it, and no connection: "+brief(o.err))
	}
}

// barSilent bars a worker until it is heard of, or for silentBar, unless it is
// the last of its role.
func (j *Judge) barSilent(d *ward, now time.Time, why string) {
	j.failing.Lock()
	if !j.isLast(d.worker) {
		p := &d.progress
		p.mu.Lock()
		known := p.silent.Swap(true) || p.wedged
		p.barLocked(now.Add(silentBar), why, known)
		p.mu.Unlock()
	}
	j.failing.Unlock()
	d.progress.out.flush()
}
