package main

import (
	"math"
	"slices"
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
	metrics.WatchState(d.collected, metrics.State{
		Ages:          d.handler.Ages,
		Workers:       d.workerStates,
		Crowd:         d.crowd,
		BufferedBytes: d.handler.BufferedBytes,
		RetryBudget:   d.handler.RetryBudget,
	})
	metrics.WatchBreakers(d.collected, judge.Breakers)
	metrics.WatchKVSpace(d.collected, d.kvSpaces)
	metrics.WatchKVEvents(d.collected, func() []metrics.WorkerKV { return d.kvStates(d.registry.Chooser()) })
	metrics.WatchLearnt(d.collected, func() metrics.Learnt {
		if c, ok := d.registry.Chooser().(*policy.CacheAware); ok {
			return learnt(c)
		}
		return metrics.Learnt{BytesPerToken: math.NaN()}
	})
}

// crowd returns how many requests there are, as metrics tell it.
func (d *daemon) crowd() metrics.Crowd {
	now := d.registry.Crowd()
	c := metrics.Crowd{Open: now.Open, Waiting: now.Waiting(), Lacking: map[string]int{}, Classes: map[string]int{}}
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

// learnt returns what cache_aware knows, as metrics tell it.
func learnt(c *policy.CacheAware) metrics.Learnt {
	known, bytesPerToken := c.Known(time.Now())
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
		// The old one of two with one URL is being removed, see workerStates.
		same := func(o metrics.LearntWorker) bool { return o.Worker == w.Worker && o.Role == w.Role }
		all.Workers = append(slices.DeleteFunc(all.Workers, same), w)
	}
	return all
}

func (d *daemon) workerStates() []metrics.WorkerState {
	statuses := d.registry.Statuses()
	states := make([]metrics.WorkerState, 0, len(statuses))
	for _, s := range statuses {
		state := metrics.WorkerState{
			URL: s.Worker.URL, Role: s.Worker.Role.String(), Models: s.Facts.Models,
			Ready: s.State == workers.Ready && !leftOut(s.Bars), InFlight: s.InFlight,
			CacheHits: s.Report.CacheHitTokens, CacheQueries: s.Report.CacheQueryTokens,
		}
		if s.Report.At.IsZero() { // nothing is known yet
			state.CacheHits, state.CacheQueries = math.NaN(), math.NaN()
		}
		// A worker that was removed and added again is there twice until the
		// old one's requests have ended.
		same := func(o metrics.WorkerState) bool { return o.URL == state.URL && o.Role == state.Role }
		if i := slices.IndexFunc(states, same); i >= 0 {
			state.InFlight += states[i].InFlight
			states[i] = state
			continue
		}
		states = append(states, state)
	}
	return states
}

// leftOut reports whether bars say that something is wrong with a worker. To
// have enough to do is nothing wrong.
func leftOut(bars []workers.Bar) bool {
	return slices.ContainsFunc(bars, func(b workers.Bar) bool { return b.Cause != workers.Backpressure })
}
