package main

import (
	"math"
	"time"

	"pdrouter/metrics"
	"pdrouter/workers"
)

// spaceOf returns how full a worker's KV cache is, as metrics tell it.
func spaceOf(s *workers.Status, now time.Time) metrics.Space {
	w := metrics.UnknownSpace()
	r := &s.Report
	if !r.At.IsZero() {
		w.Capacity, w.Used, w.ReportAge = r.KVCapacity, r.KVUsed, now.Sub(r.At).Seconds()
	}
	if k := &s.KVSpace; s.Worker.Role == workers.Decode && !math.IsNaN(k.Capacity) {
		w.Capacity, w.Used, w.Reserved, w.Drift, w.SecondsFull = k.Capacity, k.Used, k.Reserved, k.Drift, k.SecondsFull
	}
	return w
}

// engineOf returns what a worker's engine says of itself, as metrics tell it.
func engineOf(s *workers.Status) metrics.Engine {
	r := &s.Report
	if r.At.IsZero() {
		return metrics.UnknownEngine()
	}
	return metrics.Engine{
		Lost:    s.State == workers.Unready,
		Running: r.Running, Waiting: r.Waiting, TransferQueue: r.TransferQueue, Evictable: r.KVEvictable, Usage: r.KVUsed / r.KVCapacity,
		Preempted: r.Preempted, PromptTokens: r.PromptTokens, GeneratedTokens: r.GeneratedTokens,
		TransferredIn: r.TransferredIn, Computed: r.ComputedLocally,
		Transfers: r.Transfers, TransferSeconds: r.TransferSeconds, TransferFailures: r.TransferFailures, TransfersExpired: r.TransferExpired,
		CacheHits: r.CacheHitTokens, CacheQueries: r.CacheQueryTokens,
		Generating: s.Pace.Generating, HandOff: s.Pace.HandOff, Transferred: s.Pace.Transferred,
	}
}
