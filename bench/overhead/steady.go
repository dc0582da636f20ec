package main

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// direct is no system but an engine, asked for a plain answer.
const direct = "direct"

// steadyTime is how long requests come at a rate: enough of them for a p99.
const steadyTime = 5 * time.Second

// runAt has requests sent at a rate, and returns how long each took from when it
// was due, sorted. Its time to first byte is from there too: a request that is
// late because all clients wait for answers has waited.
func (l *load) runAt(ctx context.Context, rate int, length time.Duration) ([]time.Duration, error) {
	l.forget()
	due := make(chan time.Time, rate*int(length/time.Second))
	took := make([][]time.Duration, len(l.clients))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(due)
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for began := time.Now(); time.Since(began) < length; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case now := <-tick.C:
				due <- now
			}
		}
		return nil
	})
	for i, c := range l.clients {
		_ = c.conn.SetDeadline(time.Now().Add(patience)) // a socket that is closed says so when it is used
		g.Go(func() error {
			for at := range due {
				began := time.Now()
				if err := c.once(); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(at))
				c.first[len(c.first)-1] += began.Sub(at)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return all, nil
}

// forget forgets the times that clients have kept.
func (l *load) forget() {
	for _, c := range l.clients {
		c.first, c.gaps = c.first[:0], c.gaps[:0]
	}
}

// quantiles returns p50 and p99 of the times to the first byte, and of those
// between reads.
func (l *load) quantiles() (ttft, itl [2]time.Duration) {
	var first, gaps []time.Duration
	for _, c := range l.clients {
		first, gaps = append(first, c.first...), append(gaps, c.gaps...)
	}
	slices.Sort(first)
	slices.Sort(gaps)
	return [2]time.Duration{quantile(first, 50), quantile(first, 99)}, [2]time.Duration{quantile(gaps, 50), quantile(gaps, 99)}
}
