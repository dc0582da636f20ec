package main

import (
	"math"
	"slices"
	"time"

	"pdrouter/metrics"
	"pdrouter/workers"
)

// kvSpaces returns how full the workers' KV caches are, as metrics tell it.
func (d *daemon) kvSpaces() []metrics.WorkerSpace {
	now := time.Now()
	var all []metrics.WorkerSpace
	for _, s := range d.registry.Statuses() {
		w := metrics.UnknownSpace(s.Worker.URL, s.Worker.Role.String())
		r := &s.Report
		if !r.At.IsZero() {
			w.Capacity, w.Used, w.ReportAge = r.KVCapacity, r.KVUsed, now.Sub(r.At).Seconds()
		}
		if k := &s.KVSpace; s.Worker.Role == workers.Decode && !math.IsNaN(k.Capacity) {
			w.Capacity, w.Used, w.Reserved, w.Drift, w.SecondsFull = k.Capacity, k.Used, k.Reserved, k.Drift, k.SecondsFull
		}
		// The old one of two with one URL is being removed, see workerStates.
		same := func(o metrics.WorkerSpace) bool { return o.Worker == w.Worker && o.Role == w.Role }
		all = append(slices.DeleteFunc(all, same), w)
	}
	return all
}
