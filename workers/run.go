package workers

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run looks at every worker that is not ready, at once and then once per
// Config.ProbeInterval, until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.ProbeInterval)
	defer tick.Stop()
	for {
		r.Look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look looks once at every worker that is not ready, all at the same time, and
// returns when each has answered or Config.ProbeTimeout is over.
func (r *Registry) Look(ctx context.Context) {
	var g errgroup.Group
	for _, w := range r.unready() {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, r.cfg.ProbeTimeout)
			defer cancel()
			facts, err := r.identify(ctx, w)
			if ctx.Err() != nil && err == nil {
				return nil
			}
			r.learn(w, facts, err)
			return nil
		})
	}
	_ = g.Wait() // nothing in the group returns an error
}

func (r *Registry) unready() []*Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ws []*Worker
	for _, w := range r.all {
		if w.state != Ready {
			ws = append(ws, w)
		}
	}
	return ws
}

// learn records what a look at w found: facts, or the reason why there are none.
func (r *Registry) learn(w *Worker, facts *Facts, err error) {
	r.mu.Lock()
	event := Event{Worker: w, From: w.state, To: Ready}
	if err != nil {
		event.To, event.Reason = Unready, err.Error()
	}
	news := event.From != event.To || w.reason != event.Reason
	w.state, w.reason = event.To, event.Reason
	if facts != nil {
		w.facts = facts
	}
	r.rebuildLocked()
	r.mu.Unlock()
	if news {
		r.observe(event)
	}
}
