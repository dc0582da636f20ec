package health

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"pdrouter/workers"
)

// TestManyAtOnce uses everything from many goroutines, with breakers that open
// and half-open all the time. At the end no permit has leaked.
func TestManyAtOnce(t *testing.T) {
	cfg := DefaultConfig()
	cfg.FailureThreshold, cfg.SuccessThreshold = 2, 2
	cfg.OpenTime, cfg.ProbeInterval = time.Microsecond, time.Millisecond
	cfg.CanaryInterval = time.Millisecond
	f := newFleet(cfg, 3, 3)
	m := NewMonitor(f.Judge)
	m.probe = func(context.Context, *workers.Worker, string) answer {
		return answer{kind: answerKind(rand.IntN(3)), told: true, reason: "chance"}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watch, work errgroup.Group
	watch.Go(func() error { return m.Run(ctx) })
	watch.Go(func() error {
		for last := time.Now(); ctx.Err() == nil; {
			now := time.Now()
			started := now.Add(time.Duration(rand.IntN(3)) * time.Hour)
			f.Reported(f.decode[rand.IntN(3)], workers.Report{At: last, Started: now}, workers.Report{At: now, Started: started}, nil)
			f.Breakers()
			last = now
		}
		return nil
	})
	canaries := NewCanaries(f.Judge, func(_ context.Context, prefill, decode *workers.Worker) error {
		permit := new(workers.Permit)
		if !f.Permit(permit, prefill, decode) {
			return &workers.NoneError{}
		}
		f.end(permit, nil, nil)
		return nil
	})
	watch.Go(func() error { return canaries.Run(ctx) })
	outcomes := []error{nil, nil, nil, sick(), gone(), untaken(), left(), busy(0)}
	for range 8 {
		work.Go(func() error {
			for range 2000 {
				permit := new(workers.Permit)
				if !f.Permit(permit, f.prefill[rand.IntN(3)], f.decode[rand.IntN(3)]) {
					continue
				}
				var legs errgroup.Group
				for role := range workers.Role(2) {
					legs.Go(func() error {
						if role == workers.Decode && rand.IntN(2) == 0 {
							f.Began(permit)
						}
						f.Ended(permit, role, outcomes[rand.IntN(len(outcomes))])
						return nil
					})
				}
				_ = legs.Wait()
			}
			return nil
		})
	}
	_ = work.Wait()
	cancel()
	_ = watch.Wait()
	f.settles(t)
}

// settles fails unless every pair lets requests in again soon.
func (f *fleet) settles(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for p := range f.prefill {
		for d := range f.decode {
			for good := 0; good < f.cfg.SuccessThreshold; {
				if f.try(p, d, nil, nil) {
					good++
				} else if time.Now().After(deadline) {
					t.Fatalf("prefill-%d and decode-%d let nobody in any more", p, d)
				}
			}
		}
	}
	for _, w := range append(append([]*workers.Worker(nil), f.prefill...), f.decode...) {
		if !f.ward(w).breaker.closed() || f.barOf(w, workers.Breaking) > 0 {
			t.Errorf("%s is not closed, or barred for %v", w.ID, f.barOf(w, workers.Breaking))
		}
	}
}
