package workers

import (
	"context"
	"time"

	"pdrouter/exchange"

	"golang.org/x/sync/errgroup"
)

// isReady reports whether w is known to be fit, be it draining or not.
func (r *Registry) isReady(w *Worker) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.ready
}

// Look looks once at every worker that is not ready, all at the same time, and
// returns when each has answered or Config.ProbeTimeout is over.
func (r *Registry) Look(ctx context.Context) {
	r.mu.Lock()
	var unready []*Worker
	for _, w := range r.all {
		if !w.ready && !w.removed {
			unready = append(unready, w)
		}
	}
	r.mu.Unlock()
	var g errgroup.Group
	for _, w := range unready {
		g.Go(func() error {
			r.look(ctx, w)
			return nil
		})
	}
	_ = g.Wait() // nothing in the group returns an error
}

// look asks the engine of w what it is.
func (r *Registry) look(ctx context.Context, w *Worker) {
	r.mu.Lock()
	w.looks++
	look := w.looks
	r.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, r.config().ProbeTimeout)
	defer cancel()
	facts, err := r.identify(asking, w)
	if ctx.Err() != nil {
		return // we stopped it, so it says nothing
	}
	r.learn(look, w, facts, err)
}

// learn records what that look at w found: facts, or the reason why there are
// none. Of looks that overtook one another the later one is believed.
func (r *Registry) learn(look int, w *Worker, facts *Facts, err error) {
	r.mu.Lock()
	if look < w.learnt || w.removed {
		r.mu.Unlock()
		return
	}
	w.learnt = look
	event := Event{Worker: w, From: w.state()}
	before, reason := w.facts, w.reason
	w.ready, w.unfit, w.reason = err == nil, err != nil && facts != nil, ""
	if err != nil {
		w.reason = err.Error()
	}
	var old *exchange.Peer
	if facts != nil {
		w.facts = facts
		old, w.bootstrap = w.bootstrap, r.bootstrapPeer(w, facts)
	}
	if w.ready && w.cold {
		w.cold = false
		r.beginWarmLocked(w, time.Now())
	}
	event.To, event.Reason = w.state(), w.reason
	news := event.From != event.To || reason != w.reason
	r.rebuildLocked()
	misfit := r.misfitLocked(w)
	r.mu.Unlock()
	if old != nil {
		old.Close()
	}
	if news {
		r.observe(event)
	}
	if misfit != nil && news {
		r.observe(*misfit)
	}
	if what := difference(before, facts); what != "" {
		r.observe(Event{Worker: w, Kind: Learned, From: event.To, To: event.To, Reason: what})
	}
}

// Recheck looks at w anew, because it may be another engine than it was, such
// as after a restart. Until it has said what it is now, it gets no requests:
// they may be meant for what it no longer is. Then it is warmed.
func (r *Registry) Recheck(w *Worker) {
	r.mu.Lock()
	w.cold = true
	events := r.recheckLocked(w, "has started anew, and is looked at again")
	r.rebuildLocked()
	r.mu.Unlock()
	r.flushed(w)
	for _, e := range events {
		r.observe(e)
	}
}

func (r *Registry) recheckLocked(w *Worker, why string) []Event {
	if !w.ready || w.removed {
		return nil // it is looked at as it is
	}
	event := Event{Worker: w, From: w.state(), Reason: why}
	w.ready, w.unfit, w.reason = false, false, why
	w.learnt = w.looks + 1 // what a look that is under way finds may be of before
	event.To = w.state()
	select {
	case w.told <- struct{}{}:
	default:
	}
	return []Event{event}
}
