package health

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"pdrouter/workers"
)

const (
	// stale is how far apart two reports may be without anything being made of
	// what happened in between.
	stale = 15 * time.Second

	// leastStill is in how many reports in a row nothing may have moved, at
	// least, for the worker to be barred: a request that comes just before a
	// report has had no time to move anything.
	leastStill = 3

	// silentBar is how long a worker is barred that fell silent, unless it is
	// heard of.
	silentBar = 10 * time.Second

	// newProcess is by how much the start time of a process must differ for it
	// to be another one. Engines tell it in seconds, some as now less uptime.
	newProcess = 2 * time.Second
)

// A progress is what is known of a worker's getting on.
type progress struct {
	out    *outbox
	silent atomic.Bool // silence bars it

	mu     sync.Mutex // guards the following
	still  int        // reports in a row in which nothing had moved
	since  time.Time  // of the report from which on nothing has
	wedged bool
	until  time.Time // of the bar, if there is one
}

// barred reports whether a bar is in force.
func (p *progress) barred(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.wedged || p.silent.Load()) && now.Before(p.until)
}

// heard ends the bar for silence.
func (p *progress) heard() {
	p.mu.Lock()
	if p.silent.Swap(false) && !p.wedged {
		p.liftLocked("it is heard of again")
	}
	p.mu.Unlock()
	p.out.flush()
}

func (p *progress) liftLocked(why string) {
	p.until = time.Time{}
	p.out.put(time.Time{}, "")
	p.out.tell(Event{Topic: Progress, From: "stalled", To: "moving", Reason: why})
}

// barLocked bars the worker, and says so unless that is known.
func (p *progress) barLocked(until time.Time, why string, known bool) {
	p.until = until
	p.out.put(until, why)
	if !known {
		p.out.tell(Event{Topic: Progress, From: "moving", To: "stalled", Reason: why})
	}
}

// Reported implements workers.Judge. It is to be called with the reports of one
// worker one after the other.
func (j *Judge) Reported(w *workers.Worker, before, now workers.Report, err error) {
	d := j.ward(w)
	if now.At.IsZero() {
		j.unread(d, err)
		return
	}
	d.reports.Store(true)
	if how := restarted(before, now); how != "" {
		j.restarted(d, how)
	}
	d.lives(now.At)
	if j.cfg.WedgeTime <= 0 {
		return
	}
	m := movementOf(before, now)
	if d.good.Load() > before.At.UnixNano() {
		m = worked
	}
	j.failing.Lock()
	d.progress.see(before, now, m, j.cfg.WedgeTime, func() bool { return j.isLast(w) })
	j.failing.Unlock()
	d.progress.out.flush()
}

// see judges by one more report. Spare says that the worker is not to be barred
// all the same, being the last of its role; it is asked with the lock held, and
// looks at other workers only.
func (p *progress) see(before, now workers.Report, m movement, limit time.Duration, spare func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == worked || m == stirred && !p.wedged {
		p.still, p.since = 0, now.At
		why := "it gets on again"
		if now.Running == 0 {
			why = "it has nothing left to do"
		}
		p.endWedgeLocked(why)
		return
	}
	if p.still == 0 {
		p.since = before.At
	}
	p.still++
	if p.still < leastStill || now.At.Sub(p.since) < limit {
		return
	}
	if spare() {
		p.endWedgeLocked("no other worker of its role is left")
		return
	}
	known := p.wedged || p.silent.Load()
	p.wedged = true
	gap := now.At.Sub(before.At)
	why := fmt.Sprintf("no progress since %s with %.0f requests running", p.since.UTC().Format(time.TimeOnly+" MST"), now.Running)
	p.barLocked(now.At.Add(max(3*gap, limit)), why, known)
}

func (p *progress) endWedgeLocked(why string) {
	if p.wedged {
		p.wedged = false
		if !p.silent.Load() {
			p.liftLocked(why)
		}
	}
}

// A movement is what two reports show of what happened in between.
type movement uint8

const (
	nothing movement = iota

	// stirred says that requests came or went, or that space was filled or
	// freed. It speaks for a worker: a long prompt fills space well before its
	// tokens are counted. But clients leave a worker that has hung, too, and
	// that must not let others in.
	stirred

	// worked says that something moved that only work moves, or that there was
	// nothing to do, or that it cannot be told.
	worked
)

// movementOf tells what two reports show.
func movementOf(a, b workers.Report) movement {
	switch {
	case !telling(a, b):
		return worked
	case differ(a.PromptTokens, b.PromptTokens), differ(a.GeneratedTokens, b.GeneratedTokens),
		differ(a.TransferredIn, b.TransferredIn), differ(a.ComputedLocally, b.ComputedLocally):
		return worked
	case differ(a.Running, b.Running), differ(a.KVUsed, b.KVUsed):
		return stirred
	default:
		return nothing
	}
}

// telling reports whether two reports can show a lack of progress: near
// enough to one another, with requests running in both, and with a total in both
// that would have moved.
func telling(a, b workers.Report) bool {
	gap := b.At.Sub(a.At)
	return gap > 0 && gap <= stale && a.Running > 0 && b.Running > 0 &&
		(told(a.PromptTokens, b.PromptTokens) || told(a.GeneratedTokens, b.GeneratedTokens))
}

func told(a, b float64) bool { return !math.IsNaN(a) && !math.IsNaN(b) }

func differ(a, b float64) bool { return told(a, b) && a != b }

// restarted says how two reports show that the process is another one than
// before, if they do. Where an engine does not tell when it was started, its
// totals do: they never go down.
func restarted(before, now workers.Report) string {
	a, b := before.Started, now.Started
	switch {
	case !a.IsZero() && !b.IsZero():
		if b.Sub(a).Abs() <= newProcess {
			return ""
		}
		return fmt.Sprintf("it runs since %s, and not since %s any more", b.UTC().Format(time.RFC3339), a.UTC().Format(time.RFC3339))
	case before.At.IsZero():
		return "" // there was none before
	case now.PromptTokens < before.PromptTokens || now.GeneratedTokens < before.GeneratedTokens || now.ProcessSeconds < before.ProcessSeconds:
		return "its totals began anew"
	default:
		return ""
	}
}

// restarted forgets what was held against the process that is no more.
func (j *Judge) restarted(d *ward, how string) {
	j.observe(Event{Topic: Restart, Worker: d.worker, Reason: "the engine has been restarted: " + how})
	const why = "the engine has been restarted"
	d.pressure.forget()
	if d.breaker.reset(why) {
		d.breaks.flush()
	}
	for _, p := range j.pairsWith(d.worker) {
		if p.breaker.reset(why) {
			p.out.flush()
		}
	}
	j.wards.Range(func(_, other any) bool {
		other.(*ward).forgive(d.worker)
		return true
	})
	p := &d.progress
	p.mu.Lock()
	p.still = 0
	p.endWedgeLocked(why)
	p.mu.Unlock()
	p.out.flush()
}

// forgive drops the charges that a worker's restart settles.
func (d *ward) forgive(w *workers.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.charged, w)
	if d.worker == w {
		clear(d.charged)
		d.row = 0
	}
}

// pairsWith returns the pairs of which w is one.
func (j *Judge) pairsWith(w *workers.Worker) []*pair {
	var found []*pair
	j.wards.Range(func(_, v any) bool {
		d := v.(*ward)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, p := range d.pairs {
			if p.prefill == w || p.decode == w {
				found = append(found, p)
			}
		}
		return true
	})
	return found
}
