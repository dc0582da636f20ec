package health

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"pdrouter/workers"
)

// A Send sends a request of one token through a pair, and has its legs judged
// like any other's. It returns nil if the token came, a *workers.NoneError if
// the pair may not be leased now and nothing was sent, a *workers.Fault if a
// worker or the hand-off failed, and any other error if it cannot be said how the
// pair is.
type Send func(ctx context.Context, prefill, decode *workers.Worker) error

// Canaries sends requests of its own through pairs that have had none, so that
// one whose hand-offs fail is found before a client is sent there: engines say
// that they are well as long as their processes are.
type Canaries struct {
	judge *Judge
	send  Send
	began time.Time

	// failing are the pairs whose last canary failed, and last is the pair of
	// the last one.
	failing map[couple]bool
	last    couple
}

// A couple names a pair.
type couple struct{ prefill, decode *workers.Worker }

// NewCanaries returns Canaries that judge judges.
func NewCanaries(judge *Judge, send Send) *Canaries {
	return &Canaries{judge: judge, send: send, failing: map[couple]bool{}}
}

// Run sends canaries until ctx ends, one at a time and one per
// Config.CanaryInterval. If that is 0 it returns at once.
func (c *Canaries) Run(ctx context.Context) error {
	c.began = time.Now()
	every := c.judge.cfg.CanaryInterval
	if every <= 0 {
		return nil
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.round(ctx)
		}
	}
}

// round sends one canary, if there is a pair for it.
func (c *Canaries) round(ctx context.Context) {
	for _, i := range c.idle(c.judge.registry.Statuses(), time.Now()) {
		err := c.send(ctx, i.prefill, i.decode)
		if _, unsent := errors.AsType[*workers.NoneError](err); unsent {
			continue
		}
		c.last = i.couple
		if fault, failed := errors.AsType[*workers.Fault](err); failed || err == nil {
			c.heed(i.couple, fault)
		}
		return
	}
}

// heed tells of a pair that is another than its last canary found it.
func (c *Canaries) heed(pair couple, fault *workers.Fault) {
	if c.failing[pair] == (fault != nil) {
		return
	}
	e := Event{Topic: Canary, Worker: pair.prefill, Decode: pair.decode}
	if fault != nil {
		c.failing[pair] = true
		e.From, e.To, e.Reason = "working", "failing", brief(fault)
	} else {
		delete(c.failing, pair)
		e.From, e.To, e.Reason = "failing", "working", "a canary got its token"
	}
	c.judge.observe(e)
}

// An idle pair has had no request for the whole interval.
type idle struct {
	couple
	since   time.Time // its last request
	workers time.Time // the last of either worker with anybody
	failing bool
}

// idle returns the idle pairs, in the order in which they are to be tried: those
// whose last canary failed, unless that was the very last one; then the one that
// has had no request for longest, and of several those whose workers have had
// none.
func (c *Canaries) idle(statuses []workers.Status, now time.Time) []idle {
	c.forget(statuses)
	// A canary is a request too, and begins a moment after its turn. It is not
	// to put off the next.
	enough := c.judge.cfg.CanaryInterval * 19 / 20
	used := map[*workers.Worker]time.Time{}
	var pairs []idle
	for i := range statuses {
		for k := range statuses {
			p, d := &statuses[i], &statuses[k]
			if p.Worker.Role != workers.Prefill || d.Worker.Role != workers.Decode {
				continue
			}
			since := c.judge.ward(p.Worker).usedWith(d.Worker)
			used[p.Worker], used[d.Worker] = later(used[p.Worker], since), later(used[d.Worker], since)
			long := now.Sub(later(since, c.began)) >= enough
			if long && mayBeSent(p) && mayBeSent(d) && workers.MayPair(&p.Facts, &d.Facts) {
				pair := couple{p.Worker, d.Worker}
				pairs = append(pairs, idle{couple: pair, since: since, failing: c.failing[pair] && c.last != pair})
			}
		}
	}
	for i := range pairs {
		pairs[i].workers = later(used[pairs[i].prefill], used[pairs[i].decode])
	}
	slices.SortStableFunc(pairs, func(a, b idle) int {
		first := 0
		if a.failing != b.failing {
			if first = 1; a.failing {
				first = -1
			}
		}
		return cmp.Or(first, a.since.Compare(b.since), a.workers.Compare(b.workers))
	})
	return pairs
}

// mayBeSent reports whether a worker may have a canary: whatever keeps requests
// from it keeps canaries from it too.
func mayBeSent(s *workers.Status) bool { return s.State == workers.Ready && len(s.Bars) == 0 }

// forget drops the pairs of workers that are no longer there.
func (c *Canaries) forget(statuses []workers.Status) {
	there := func(w *workers.Worker) bool {
		return slices.ContainsFunc(statuses, func(s workers.Status) bool { return s.Worker == w })
	}
	for pair := range c.failing {
		if !there(pair.prefill) || !there(pair.decode) {
			delete(c.failing, pair)
		}
	}
}

// noteUse notes that a pair is sent a request.
func (j *Judge) noteUse(first *ward, decode *workers.Worker) {
	if j.cfg.CanaryInterval <= 0 {
		return
	}
	now := time.Now()
	first.mu.Lock()
	defer first.mu.Unlock()
	first.used[decode] = now
}

// usedWith returns when a prefill worker was last sent a request together with a
// decode worker; zero if it never was.
func (d *ward) usedWith(decode *workers.Worker) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used[decode]
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
