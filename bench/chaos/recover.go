package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// How long the router may take, once all engines are well, to succeed with
// every request, and to give every engine some again.
const (
	successLimit = 10 * time.Second
	shareLimit   = 30 * time.Second
)

// recover wants that nothing of what befell the engines lingers.
func (t *trial) recover(ctx context.Context) {
	for _, e := range t.fleet.engines {
		if err := e.died(); err != nil {
			t.faults.add("%w", err)
			return
		}
	}
	began := time.Now()
	if ratio := t.tally.ratio(); ratio < t.floor {
		t.faults.add("%.1f %% of good requests succeeded amid the storm, want at least %.1f %%", 100*ratio, 100*t.floor)
	}
	before, err := t.served(ctx)
	if err != nil {
		t.faults.add("%w", err)
		return
	}
	r := requester{random(t.seed, 1<<20), t.dialect}
	inARow := 0
	err = eventually(ctx, successLimit, func() error {
		failed := t.batch(ctx, r)
		if inARow++; failed > 0 {
			inARow = 0
		}
		if inARow < 2 {
			return fmt.Errorf("%d of %d requests fail", failed, batchSize)
		}
		return t.fleet.allReady(ctx)
	})
	if err != nil {
		t.faults.add("%v after all engines are well again: %w", successLimit, err)
		return
	}
	all := time.Since(began)
	err = eventually(ctx, shareLimit, func() error {
		t.batch(ctx, r)
		return t.allServe(ctx, before)
	})
	if err != nil {
		t.faults.add("%v after all engines are well again: %w", shareLimit, err)
		return
	}
	t.say("all engines well: every request succeeds after %.1f s, every engine has served after %.1f s", all.Seconds(), time.Since(began).Seconds())
}

// batchSize is how many requests a batch has, eight of them at a time.
const batchSize = 48

// batch sends requests of which all should succeed, and returns how many failed.
func (t *trial) batch(ctx context.Context, r requester) (failed int) {
	requests := make(chan request, batchSize)
	for range batchSize {
		requests <- r.faultless()
	}
	close(requests)
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for req := range requests {
				if !t.crowd.play(ctx, fmt.Sprintf("batch-%d", time.Now().UnixNano()), req) {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(n.Load())
}

// served returns how many requests each engine has had.
func (t *trial) served(ctx context.Context) ([]uint64, error) {
	counts := make([]uint64, len(t.fleet.engines))
	for i, e := range t.fleet.engines {
		s, err := e.state(ctx)
		if err != nil {
			return nil, err
		}
		counts[i] = s.Stats.TotalRequests
	}
	return counts, nil
}

// allServe wants that each engine has had requests since before.
func (t *trial) allServe(ctx context.Context, before []uint64) error {
	now, err := t.served(ctx)
	if err != nil {
		return err
	}
	for i := range now {
		if now[i] == before[i] {
			return fmt.Errorf("engine %d gets no requests", i)
		}
	}
	return nil
}

// provokeTime is how long clients misbehave with all engines well. Afterwards
// engines have departLimit to be idle: the second of I3, and something for a
// busy machine. Answers that take longer than that are among those left.
//
// maxUnheard are the legs, of hundreds, that may go on nevertheless: an engine
// that is told to abort a leg which it has not read yet knows nothing of it.
const (
	provokeTime = 2 * time.Second
	departLimit = 2500 * time.Millisecond
	maxUnheard  = 4
)

// provoke wants that no engine is blamed for what clients do (I7): no leg
// counts as failed, and no breaker moves. And that engines hear of it when
// clients leave (I3).
func (t *trial) provoke(ctx context.Context) {
	before, err := scrape(ctx, t.fleet.client, t.fleet.metrics)
	if err != nil {
		t.faults.add("%w", err)
		return
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i := range t.clients {
		wg.Go(func() {
			r := requester{random(t.seed, 1<<21+uint64(i)), t.dialect}
			for n := 0; time.Since(began) < provokeTime; n++ {
				t.crowd.play(ctx, fmt.Sprintf("provoke-%d-%d", i, n), r.misbehaved())
				pause(ctx, time.Duration(r.IntN(100))*time.Millisecond)
			}
		})
	}
	wg.Wait()
	t.wantHeard(ctx)
	err = eventually(ctx, 2*time.Second, func() error { return t.fleet.allReady(ctx) })
	after, scrapeErr := scrape(ctx, t.fleet.client, t.fleet.metrics)
	if err := errors.Join(err, scrapeErr); err != nil {
		t.faults.add("after clients misbehaved: %w", err)
		return
	}
	for series := range after {
		if moved := after[series] - before[series]; blames(series) && moved != 0 {
			t.faults.add("clients misbehaved, and %s has grown by %v", series, moved)
		}
	}
}

// wantHeard wants that the engines soon work for nobody who has left.
func (t *trial) wantHeard(ctx context.Context) {
	unheard, began := 0, time.Now()
	err := eventually(ctx, departLimit, func() error {
		unheard = 0
		for _, e := range t.fleet.engines {
			s, err := e.state(ctx)
			if err != nil {
				return err
			}
			unheard += s.Stats.Requests
		}
		if unheard > 0 {
			return fmt.Errorf("engines work on %d requests, want at most %d", unheard, maxUnheard)
		}
		return nil
	})
	if err != nil && (unheard == 0 || unheard > maxUnheard) {
		t.faults.add("%v after the last client has left: %w", departLimit, err)
		return
	}
	t.say("clients have left and sent nonsense: after %.1f s engines work on %d legs of theirs", time.Since(began).Seconds(), unheard)
}

// blames reports whether a series grows when a worker is blamed.
func blames(series string) bool {
	p := page{series: 1}
	return p.sum("pdrouter_legs_total", `outcome="failed"`) > 0 || p.sum("smg_worker_cb_transitions_total") > 0 || p.sum("smg_worker_cb_outcomes_total", `outcome="failure"`) > 0
}
