package main

import (
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"
)

// One prefill engine cannot be reached by one decode engine. That is neither's
// fault: the pair's breaker opens, both go on with others, and no client notices.
func TestPairCutOff(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{
				dialect: dialect,
				engine: func(c *sim.Config) {
					c.HandshakeTimeout, c.Lease = 5*time.Millisecond, 200*time.Millisecond
				},
				config: func(c *Config) {
					c.Router.Retries.Backoff = time.Millisecond
					c.Policy = "random" // workers that take turns on both sides make two pairs only
				},
			})
			p, d := f.prefill[0], f.decode[1]
			d.Fail(sim.Fault{Kind: sim.FaultCutOff, Peer: bootstrapOf(p)})
			c := newCrowd(t, f.base, 3, func(i int) step { return completion(t, i, prompt(i, 700), 2) })
			pair := []string{`prefill="` + p.URL() + `"`, `decode="` + d.URL() + `"`}
			open := func() bool { return f.scraped(t).sum("pdrouter_pair_cb_state", pair...) == 1 }
			if !eventually(open) {
				t.Error("the pair's breaker does not open")
			}
			failed := d.Stats().FailedTransfers
			before := f.scraped(t)
			both := func() bool {
				now := f.scraped(t)
				return now.legs(p.URL(), "ok") > before.legs(p.URL(), "ok")+20 && now.legs(d.URL(), "ok") > before.legs(d.URL(), "ok")+20
			}
			if !eventually(both) {
				t.Error("they do not go on with others")
			}
			all := c.disperse()
			wantOutcomes(t, all, wholeAnswer)
			after := f.scraped(t)
			t.Logf("%d requests, %d hand-offs failed, %v pairs with a breaker", len(all), d.Stats().FailedTransfers, after.sum("pdrouter_pair_cb_transitions_total"))
			if n := d.Stats().FailedTransfers - failed; n > 1 { // one was under way
				t.Errorf("%d hand-offs failed after the pair's breaker had opened", n)
			}
			if after.sum("pdrouter_pair_cb_state") != 1 || after.sum("pdrouter_pair_cb_state", pair...) != 1 || after.sum("smg_worker_cb_state") != 0 {
				t.Error("a breaker other than the pair's is open")
			}
			if lines := f.logged("pair breaker open", p.URL()); len(lines) != 1 || !strings.Contains(lines[0], "10 requests failed in a row") {
				t.Errorf("log = %q, want one line with the reason", lines)
			}
		})
	}
}

// A decode engine takes requests, answers /health and makes no token. It is
// found out, gets nothing new, and is back when it gets on again.
func TestWedgedEngine(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{
				dialect: dialect,
				engine:  func(c *sim.Config) { c.DecodePerToken = time.Millisecond },
				config: func(c *Config) {
					c.Health.WedgeTime, c.Workers.LoadInterval = 500*time.Millisecond, 100*time.Millisecond
				},
			})
			sick := f.decode[0]
			sick.Fail(sim.Fault{Kind: sim.FaultWedge, Tokens: 3})
			c := newCrowd(t, f.base, 6, func(i int) step { return completion(t, 1, prompt(i, 700), 8) })
			began := time.Now()
			stalled := func() bool { return f.barOf(sick, workers.Stalled) != nil }
			if !eventually(stalled) {
				t.Fatal("it is not found out")
			}
			t.Logf("found out after %v, with %d requests on it", time.Since(began).Round(time.Millisecond), sick.Stats().Running)
			stuck := sick.Stats()
			whole := func(a answered) bool { return a.outcome == wholeAnswer }
			before := c.seen(whole)
			if !eventually(func() bool { return c.seen(whole) > before+50 }) {
				t.Error("the other one does not go on")
			}
			if now := sick.Stats(); now.TotalRequests > stuck.TotalRequests+1 || now.Running == 0 { // one may have been on its way
				t.Errorf("it had %d requests when it was found out, and %d now, of which %d run", stuck.TotalRequests, now.TotalRequests, now.Running)
			}
			if lines := f.logged("worker progress stalled", sick.URL()); len(lines) != 1 || !strings.Contains(lines[0], "no progress since") {
				t.Errorf("log = %q, want one line with the reason", lines)
			}
			if got := f.scraped(t).sum("smg_worker_health", `worker="`+sick.URL()+`"`); got != 0 {
				t.Errorf("smg_worker_health = %v, want 0", got)
			}
			sick.ClearFaults()
			if !eventually(func() bool { return !stalled() && sick.Stats().TotalRequests > stuck.TotalRequests+5 }) {
				t.Error("it is not let in again")
			}
			if lines := f.logged("worker progress moving", sick.URL()); len(lines) != 1 {
				t.Errorf("log = %q, want one line", lines)
			}
			wantOutcomes(t, c.disperse(), wholeAnswer)
			f.scraped(t).wantNoBreakers(t)
		})
	}
}

// barOf returns the bar of an engine for a cause, nil if none is in force.
func (f *fleet) barOf(e *sim.Engine, c workers.Cause) *workers.Bar {
	for _, s := range f.registry.Statuses() {
		for i := range s.Bars {
			if s.Worker.URL == e.URL() && s.Bars[i].Cause == c {
				return &s.Bars[i]
			}
		}
	}
	return nil
}
