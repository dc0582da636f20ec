package workers

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run watches every worker until ctx ends: it looks at those that are not
// ready once per Config.ProbeInterval, and reads the reports of the others once
// per Config.LoadInterval. Each has a goroutine, so that one that hangs delays
// no other, and never has two questions open.
func (r *Registry) Run(ctx context.Context) error {
	var g errgroup.Group
	start := func(w *Worker) {
		ctx, cancel := context.WithCancel(ctx)
		w.stop = cancel
		g.Go(func() error {
			defer cancel()
			r.watch(ctx, w)
			return nil
		})
	}
	r.mu.Lock()
	r.start = start
	for _, w := range r.all {
		if !w.removed {
			start(w)
		}
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.start = nil // nobody joins the group while it is waited for
	r.mu.Unlock()
	return g.Wait()
}

// watch visits w when it is due, and when there is something to look at.
func (r *Registry) watch(ctx context.Context, w *Worker) {
	due := time.NewTimer(0)
	defer due.Stop()
	events := r.newKVFeed(w)
	defer events.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		case <-w.told:
		}
		due.Reset(r.visit(ctx, w))
		events.follow(ctx)
	}
}

// visit looks at w, if it is not ready, and reads its report, if it is. It
// returns when the next visit is due.
func (r *Registry) visit(ctx context.Context, w *Worker) time.Duration {
	if !r.isReady(w) {
		r.look(ctx, w)
	}
	if !r.isReady(w) {
		return r.config().ProbeInterval
	}
	cfg := r.config()
	if r.read != nil && !cfg.NoReports {
		r.readReport(ctx, w)
	} else {
		r.recall(w, Report{})
	}
	return spread(cfg.LoadInterval)
}

// spread returns a tenth more or less than d, so that the workers, all of which
// began at one moment, are not asked at one moment for ever.
func spread(d time.Duration) time.Duration {
	return d*9/10 + rand.N(d/5+1)
}

// readReport reads what the engine of w says of itself, keeps it, and tells the
// Judge, also if there is nothing to keep. That it cannot be read is an event
// once for each reason, and does not change the worker's state: health judges by
// more than that.
func (r *Registry) readReport(ctx context.Context, w *Worker) {
	r.mu.Lock()
	w.polls++
	limit := r.cfg.ProbeTimeout
	r.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	now, err := r.read(asking, w)
	if ctx.Err() != nil {
		return // we stopped it, so it says nothing
	}
	told := !now.At.IsZero() // an engine whose metrics are off tells a little, beside the error
	event := Event{Worker: w, Kind: Read}
	if err != nil {
		event.Kind, event.Reason = Unread, plain(asking, err).Error()
	}
	r.mu.Lock()
	before := w.report
	if told {
		w.report, w.pace = now, paceOf(&before, &now)
		w.load.Report = &now
		r.takeReportLocked(w, time.Now())
		r.serveAllLocked() // there may be more room than was known
	}
	news := w.unread != event.Reason
	w.unread = event.Reason
	event.From, event.To = w.state(), w.state()
	r.mu.Unlock()
	if told || errors.As(err, new(*MetricsOffError)) {
		r.recall(w, now)
	}
	if l := r.learner(); l != nil && told {
		l.Reported(w.Seat(), now)
	}
	if r.judge != nil && (told || !isOurs(err)) {
		r.judge.Reported(w, before, now, unanswered(err))
	}
	if news {
		r.observe(event)
	}
}
