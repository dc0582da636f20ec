package main

import (
	"context"
	"fmt"
	"time"
)

// A sample is one run of one workload on one system.
type sample struct {
	requests int
	elapsed  time.Duration
	cpu      time.Duration // of the system's process
	p50, p99 time.Duration
	ttft     [2]time.Duration // its p50 and p99
	itl      [2]time.Duration // likewise, of chunks that come one by one
	rss      int64            // bytes, at the end
	peak     int64            // bytes
}

// measure runs a workload on a system for the time that the options say.
func (s *stage) measure(ctx context.Context, sys *system, w workload) (sample, error) {
	l, err := newLoad(ctx, sys.addr, w, s.opts.concurrency)
	if err != nil {
		return sample{}, err
	}
	defer l.close()
	before, err := s.legs(ctx)
	if err != nil {
		return sample{}, err
	}
	// Each connection's first requests open what they need: those do not count.
	warm := 2 * s.opts.concurrency
	if _, err := l.run(func(sent int) bool { return sent < warm }); err != nil {
		return sample{}, sys.explain(err)
	}
	got, err := s.timed(ctx, sys, l, w)
	if err != nil {
		return sample{}, sys.explain(err)
	}
	return got, s.checkLegs(ctx, sys.name, warm+got.requests, before)
}

// timed runs the load and looks at the system's process before and after.
func (s *stage) timed(ctx context.Context, sys *system, l *load, w workload) (sample, error) {
	sys.forgetPeak()
	before, err := sys.cpu()
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	took, err := s.drive(ctx, l, w)
	if err != nil {
		return sample{}, err
	}
	if err := ctx.Err(); err != nil {
		return sample{}, err
	}
	got := sample{requests: len(took), elapsed: time.Since(began), p50: quantile(took, 50), p99: quantile(took, 99)}
	got.ttft, got.itl = l.quantiles()
	after, err := sys.cpu()
	if err != nil {
		return sample{}, err
	}
	got.cpu = after - before
	got.rss, got.peak, err = sys.memory()
	return got, err
}

// drive runs the load for the time that the options say.
func (s *stage) drive(ctx context.Context, l *load, w workload) ([]time.Duration, error) {
	if w.rate > 0 {
		return l.runAt(ctx, w.rate, steadyTime)
	}
	until := time.Now().Add(s.opts.duration)
	return l.run(func(int) bool { return ctx.Err() == nil && time.Now().Before(until) })
}

// checkLegs reports legs that are missing, or that were not handed off. A
// client may have its answer before the last prefill leg is counted, so it
// looks more than once.
func (s *stage) checkLegs(ctx context.Context, system string, requests int, before counts) error {
	want := counts{Prefill: before.Prefill + int64(requests), Decode: before.Decode + int64(requests), Plain: before.Plain}
	if system == oneLeg || system == direct {
		want = counts{Prefill: before.Prefill, Decode: before.Decode, Plain: before.Plain + int64(requests)}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		now, err := s.legs(ctx)
		if err != nil || now == want {
			return err
		}
		<-tick.C
	}
	now, err := s.legs(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s answered %d requests; the engines have answered these legs: %+v, want %+v", system, requests, now, want)
}

// quantile returns a percentile of sorted.
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}
