package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// holdTime is how long streams are held open once all have begun: some tokens
// on each, and time for a collection of garbage.
const holdTime = 4 * time.Second

// opening is how many streams are opened at a time.
const opening = 50

// measureOpen holds streams open on a fresh process of a system.
func (s *stage) measureOpen(ctx context.Context, name string, w workload) (sample, error) {
	sys, err := s.start(ctx, name)
	if err != nil {
		return sample{}, err
	}
	defer sys.stop()
	l, err := newLoad(ctx, sys.addr, w, s.opts.streams)
	if err != nil {
		return sample{}, err
	}
	defer l.close()
	if err := l.open(); err != nil {
		return sample{}, sys.explain(err)
	}
	got, err := s.hold(ctx, sys, l)
	if err != nil {
		return sample{}, sys.explain(err)
	}
	return got, nil
}

// open begins a stream on every client.
func (l *load) open() error {
	var g errgroup.Group
	g.SetLimit(opening)
	for _, c := range l.clients {
		_ = c.conn.SetDeadline(time.Now().Add(patience)) // a socket that is closed says so when it is used
		g.Go(func() error {
			answer, err := c.begin() //nolint:bodyclose // ended by closing the connection, as a client leaves
			if err == nil {
				c.stream = answer.Body
			}
			return err
		})
	}
	return g.Wait()
}

// hold reads the streams for holdTime while it watches the system's memory.
// The sample's requests are the tokens that came in that time.
func (s *stage) hold(ctx context.Context, sys *system, l *load) (sample, error) {
	var reads atomic.Int64
	var g errgroup.Group
	for _, c := range l.clients {
		g.Go(func() error {
			for {
				if _, err := c.stream.Read(c.buf); err != nil {
					return nil // closed below
				}
				reads.Add(1)
			}
		})
	}
	got, err := s.watch(ctx, sys)
	got.requests = int(reads.Load())
	l.close()
	_ = g.Wait() // it returns no error
	least := int(holdTime/time.Second-1) * len(l.clients)
	if err == nil && got.requests < least {
		err = fmt.Errorf("%d tokens came through %d streams in %v, want %d", got.requests, len(l.clients), holdTime, least)
	}
	return got, err
}

// watch looks at a system's memory until holdTime is over.
func (s *stage) watch(ctx context.Context, sys *system) (sample, error) {
	before, err := sys.cpu()
	if err != nil {
		return sample{}, err
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	got := sample{}
	for began := time.Now(); got.elapsed < holdTime; got.elapsed = time.Since(began) {
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case <-tick.C:
		}
		now, peak, err := sys.memory()
		if err != nil {
			return got, err
		}
		got.rss, got.peak = max(got.rss, now), peak
	}
	after, err := sys.cpu()
	got.cpu = after - before
	return got, err
}
