package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"pdrouter/bench"
)

// compare replays the trace on the virtual clock, once for each policy and
// seed, and shows what came of it.
func (r *replayRun) compare(ctx context.Context) error {
	v := r.fleet
	v.Speed = r.speed
	v.Engine.Block = bench.BlockOf(r.reqs)
	came := make([]atomic.Int64, len(r.policies)) // requests of each policy, over all seeds
	jobs := make([]func() bench.Row, len(r.policies))
	ours := map[string]bool{}
	for i, name := range r.policies {
		p, err := bench.PolicyOf(name, r.cfg, v.Engine)
		if err != nil {
			return err
		}
		ours[name] = !p.Reference
		jobs[i] = func() bench.Row { return r.replayOne(ctx, v, p, &came[i]) }
	}
	stop := r.progress.move(func(width int) string { return r.progressBar(came, width) })
	var rows []bench.Row
	var failed error
	bench.InOrder(jobs, func(_ int, row bench.Row) {
		rows = append(rows, row)
		// On a terminal they wait for the picture that moves there.
		if r.asJSON && !r.out.terminal && cmp.Or(ended(ctx), failed) == nil {
			failed = r.printJSON(row)
		}
	})
	stop(false)
	switch err := cmp.Or(ended(ctx), failed); {
	case err != nil:
		return err
	case !r.asJSON:
		r.writeTable(rows, ours)
	case r.out.terminal:
		return r.printJSON(rows...)
	}
	return nil
}

// printJSON prints a line for each row.
func (r *replayRun) printJSON(rows ...bench.Row) error {
	enc := json.NewEncoder(r.out.out)
	for _, row := range rows {
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// replayOne replays the trace with one policy, as often as there are seeds.
func (r *replayRun) replayOne(ctx context.Context, v bench.Virtual, p bench.Policy, came *atomic.Int64) bench.Row {
	last := 0
	v.Watch = func(n int) bool {
		if n < last {
			last = 0 // the next seed
		}
		came.Add(int64(n - last))
		last = n
		return ctx.Err() == nil
	}
	return v.Means(r.reqs, p, r.seeds)
}

// progressBar shows how many of all requests have come.
func (r *replayRun) progressBar(came []atomic.Int64, width int) string {
	done, each, running := 0, len(r.reqs)*r.seeds, ""
	for i := range came {
		n := int(came[i].Load())
		done += n
		if running == "" && n < each {
			running = r.policies[i]
		}
	}
	all := each * len(came)
	return fmt.Sprintf("   %s %3.0f %%  %s", r.progress.bar(rowBar(width), fill{float64(done) / float64(all), "█", yellow}), 100*float64(done)/float64(all), running)
}
