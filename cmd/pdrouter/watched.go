package main

import (
	"math"
	"slices"
	"strconv"
	"time"

	"pdrouter/health"
	"pdrouter/metrics"
	"pdrouter/policy"
	"pdrouter/router"
	"pdrouter/workers"

	"github.com/prometheus/client_golang/prometheus/collectors"
)

// watch registers what is read when it is scraped.
func (d *daemon) watch(judge *health.Judge) {
	d.collected.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.met.WatchState(d.collected, metrics.State{
		Ages:          d.handler.Ages,
		Workers:       d.workerStates,
		Crowd:         d.crowd,
		BufferedBytes: d.handler.BufferedBytes,
		RetryBudget:   d.handler.RetryBudget,
	})
	metrics.WatchBreakers(d.collected, judge.Breakers)
	metrics.WatchProbes(d.collected, d.monitor.Probes)
	metrics.WatchBranches(d.collected, d.policyBranches)
	metrics.WatchInfo(d.collected, d.info)
	metrics.WatchKVEvents(d.collected, func() []metrics.WorkerKV { return d.kvStates(d.registry.Chooser()) })
	metrics.WatchLearnt(d.collected, func() metrics.Learnt {
		if c, ok := d.registry.Chooser().(*policy.CacheAware); ok {
			return learnt(c)
		}
		return metrics.Learnt{BytesPerToken: math.NaN()}
	})
}

// info returns which daemon this is, and how it is configured now.
func (d *daemon) info() metrics.Info {
	b, c, discovery := build(), d.current.Load(), "none"
	if c.DiscoveryProvider == fromFile {
		discovery = fromFile
	}
	prefill, decode := c.legPolicies()
	return metrics.Info{
		Version: b.Version, Revision: b.Revision, Go: b.Go, PrefillPolicy: prefill, DecodePolicy: decode,
		Discovery: discovery, MostRequests: strconv.Itoa(c.Workers.Admission.MaxInFlight),
	}
}

// crowd returns how many requests there are, as metrics tell it.
func (d *daemon) crowd() metrics.Crowd {
	now := d.registry.Crowd()
	c := metrics.Crowd{Open: now.Open, Limit: max(d.current.Load().Workers.Admission.MaxInFlight, 0), Waiting: now.Waiting(), Lacking: map[string]int{}, Classes: map[string]int{}}
	for lack, n := range now.Lacking {
		c.Lacking[workers.Shortage(lack).String()] = n
	}
	for class := router.Bulk; class <= router.System; class++ {
		c.Classes[class.String()] = now.Classes[int(class)]
	}
	return c
}

// forget drops the series of a worker that is gone, unless one with the same
// URL has come.
func (d *daemon) forget(url string) {
	same := func(s workers.Status) bool { return s.Worker.URL == url }
	if !slices.ContainsFunc(d.registry.Statuses(), same) {
		d.met.Forget(url)
	}
}

// foresee makes the series of every model that can be served, so that they are
// there before its first request.
func (d *daemon) foresee() {
	for _, model := range d.registry.Models() {
		for _, dialect := range d.registry.Dialects(model) {
			d.met.Serve(model, dialect)
		}
	}
}

// learnt returns what cache_aware knows, as metrics tell it.
func learnt(c *policy.CacheAware) metrics.Learnt {
	known, bytesPerToken := c.Known(time.Now())
	known = newest(known, func(k *policy.Knowledge) legID { return legID{k.Worker.Role, k.Worker.URL} }, nil)
	if bytesPerToken == 0 {
		bytesPerToken = math.NaN()
	}
	all := metrics.Learnt{BytesPerToken: bytesPerToken, Workers: make([]metrics.LearntWorker, 0, len(known))}
	for _, k := range known {
		w := metrics.LearntWorker{
			Worker: k.Worker.URL, Role: k.Worker.Role.String(), Blocks: k.Blocks, Keeps: k.Keeps, Kept: k.Share,
			LegSeconds: math.NaN(), TokenSeconds: math.NaN(), Backlog: k.Backlog.Seconds(), Foreign: k.Foreign,
		}
		if k.Learnt {
			w.LegSeconds, w.TokenSeconds = k.PerLeg.Seconds(), k.PerByte.Seconds()/1000*bytesPerToken
		}
		all.Workers = append(all.Workers, w)
	}
	return all
}

// workerStates returns the workers as metrics tell them.
func (d *daemon) workerStates() []metrics.WorkerState {
	now := time.Now()
	statuses := newest(d.registry.Statuses(), func(s *workers.Status) legID { return legID{s.Worker.Role, s.Worker.URL} },
		func(old, s *workers.Status) { s.InFlight += old.InFlight })
	states := make([]metrics.WorkerState, len(statuses))
	for i := range statuses {
		s := &statuses[i]
		states[i] = metrics.WorkerState{
			URL: s.Worker.URL, Role: s.Worker.Role.String(), Models: s.Facts.Models,
			Ready: s.State == workers.Ready && !leftOut(s.Bars), Draining: s.State == workers.Draining,
			InFlight: s.InFlight, Most: s.Most, Polls: s.Polls,
			Space: spaceOf(s, now), Engine: engineOf(s),
		}
	}
	return states
}

// A legID is what a worker is known by in metrics.
type legID struct {
	role workers.Role
	url  string
}

// newest returns those of all that are the last ones of their ID, in order. A
// worker that was removed and added again is there twice until the old one's
// requests have ended. Join, if not nil, adds what is left of the old one.
func newest[T any](all []T, id func(*T) legID, join func(old, t *T)) []T {
	at := make(map[legID]int, len(all))
	kept := all[:0]
	for i := range all {
		t := all[i]
		if old, twice := at[id(&t)]; twice {
			if join != nil {
				join(&kept[old], &t)
			}
			kept[old] = t
			continue
		}
		at[id(&t)] = len(kept)
		kept = append(kept, t)
	}
	return kept
}

// leftOut reports whether bars say that something is wrong with a worker. To
// have enough to do is nothing wrong.
func leftOut(bars []workers.Bar) bool {
	return slices.ContainsFunc(bars, func(b workers.Bar) bool { return b.Cause != workers.Backpressure })
}
