package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pdrouter/sim"
)

// 2000 requests while one prefill engine fails 40 times and one decode engine
// resets 40 times: all are answered, whether the failures come in a row or not.
func TestFortyFailures(t *testing.T) {
	const requests, failures = 2000, 40
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		for name, apart := range map[string]int{"in a row": 1, "every tenth": 10} {
			t.Run(dialect+" "+name, func(t *testing.T) {
				f := newFleet(t, fleetPlan{dialect: dialect, config: func(c *Config) { c.Policy = "round_robin" }})
				for i := range failures {
					f.prefill[0].Fail(sim.Fault{Kind: sim.FaultStatus, Nth: 50 + i*apart, Count: 1, Body: `{"error":{"message":"out of memory"}}`})
					f.decode[1].Fail(sim.Fault{Kind: sim.FaultReset, Nth: 50 + i*apart, Count: 1})
				}
				var asked atomic.Int64
				enough := make(chan struct{})
				c := newCrowd(t, f.base, 16, func(i int) step {
					if asked.Add(1) == requests {
						close(enough)
					}
					return completion(t, i, prompt(i%400, 800), 3)
				})
				<-enough
				all := c.disperse()
				wantOutcomes(t, all, wholeAnswer)
				p := f.scraped(t)
				if n := p.legs(f.prefill[0].URL(), "failed"); n < 10 {
					t.Errorf("%d legs failed on the prefill engine: the test shows little", n)
				}
				// A reset of a connection that was used before may mean that it had
				// been idle for too long: it is nobody's fault, and tried again.
				if d := f.decode[1].URL(); p.legs(d)-p.legs(d, "ok") < 10 {
					t.Errorf("%d legs of %d went well on the decode engine: the test shows little", p.legs(d, "ok"), p.legs(d))
				}
				p.wantNoBreakers(t, f.prefill[0].URL(), f.decode[1].URL())
			})
		}
	}
}

// One of two prefill engines answers 500 to everything. No client notices; after
// the threshold it gets nothing but trials, one at a time; well again, it is back
// after as many good trials as are asked for. Nobody else's breaker moves.
func TestSickPrefill(t *testing.T) {
	const threshold, open = 5, 200 * time.Millisecond
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{
				dialect: dialect,
				engine:  func(c *sim.Config) { c.PrefillPerToken = 50 * time.Microsecond },
				config: func(c *Config) {
					c.Health.FailureThreshold, c.Health.OpenTime = threshold, open
					c.Router.Retries.Backoff = time.Millisecond
				},
			})
			sick := f.prefill[0]
			sick.Fail(sim.Fault{Kind: sim.FaultStatus, Body: `{"error":{"message":"CUDA error"}}`})
			client := newClient(t)
			for i := 0; f.scraped(t).breaker(sick.URL()) == 0; i++ {
				if complete(t, client, f.base, prompt(i, 400), 2); i == 100 {
					t.Fatal("its breaker does not open")
				}
			}
			if n := f.scraped(t).legs(sick.URL()); n != threshold {
				t.Errorf("it has had %d legs when its breaker opens, want %d", n, threshold)
			}

			c := newCrowd(t, f.base, 8, func(i int) step { return completion(t, i, prompt(i, 400), 2) })
			opened := time.Now()
			if !eventually(func() bool { return f.scraped(t).legs(sick.URL()) >= threshold+3 }) {
				t.Error("it is not tried")
			}
			// Each failed trial doubles the open time: 1 + 2 + 4, less jitter.
			if took, least := time.Since(opened), open*4; took < least {
				t.Errorf("three trials within %v, want at least %v", took, least)
			}
			sick.ClearFaults()
			wantTrialsInTurn(t, f, sick)
			all := c.disperse()
			wantOutcomes(t, all, wholeAnswer)
			p := f.scraped(t)
			p.wantNoBreakers(t, sick.URL())
			if moves := p.sum("smg_worker_cb_transitions_total", sick.URL(), `from="half_open"`, `to="closed"`); moves != 1 {
				t.Errorf("it was closed %v times, want once", moves)
			}
			t.Logf("%d requests; the sick one had %d legs, of which %d failed", len(all), p.legs(sick.URL()), p.legs(sick.URL(), "failed"))
		})
	}
}

// wantTrialsInTurn wants that a sick engine that is well again has one request
// at a time until its breaker closes, and then its share.
func wantTrialsInTurn(t *testing.T, f *fleet, sick *sim.Engine) {
	t.Helper()
	back := func() bool { return len(f.logged("worker breaker closed", sick.URL())) > 0 }
	most, before := 0, sick.Stats().TotalRequests
	var tried uint64
	if !eventually(func() bool {
		st := sick.Stats()
		if back() {
			return true
		}
		most, tried = max(most, st.Requests), st.TotalRequests-before
		return false
	}) {
		t.Fatal("its breaker does not close")
	}
	if most > 1 || tried > 3 {
		t.Errorf("while it was tried it had %d requests at a time, %d in all, want one at a time, three in all", most, tried)
	}
	if lines := f.logged("worker breaker closed", sick.URL()); !strings.Contains(lines[0], "3 trials succeeded") {
		t.Errorf("log = %q, want that 3 trials succeeded", lines)
	}
	if !eventually(func() bool { return sick.Stats().TotalRequests > before+20 }) {
		t.Error("it does not get its share again")
	}
}

// A decode engine dies after four tokens of each answer, and its prefix cache
// draws the same prompt to it. It gets no more than the threshold.
func TestAlwaysDiesMidStream(t *testing.T) {
	const requests, threshold = 60, 10 // the default
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		for _, kind := range []string{sim.FaultDie, sim.FaultCloseMid, sim.FaultEndEarly} {
			t.Run(fmt.Sprint(dialect, " ", kind), func(t *testing.T) {
				f := newFleet(t, fleetPlan{dialect: dialect})
				client := newClient(t)
				ask := func() answered {
					a := sendStep(client, f.base, completion(t, 1, prompt(7, 4096), 12))
					var err error
					if a.outcome, err = a.asked.judge(a.reply); err != nil {
						t.Errorf("%v: %v", err, a.reply)
					}
					return a
				}
				ask()
				sick, well := f.decode[0], f.decode[1]
				if sick.Stats().TotalRequests == 0 {
					sick, well = well, sick
				}
				sick.Fail(sim.Fault{Kind: kind, Tokens: 4})
				var all []answered
				for range requests {
					all = append(all, ask())
				}
				n := outcomesOf(all)
				// One that dies before prefill's verdict has come is tried again.
				told := n[toldInStream]
				if told == 0 || told > threshold || told+n[wholeAnswer] != requests {
					t.Errorf("outcomes = %v, want at most %d streams that break off, the rest whole", n, threshold)
				}
				p := f.scraped(t)
				if got := p.legs(sick.URL()); got != 1+threshold {
					t.Errorf("it had %d legs, want one before it fell sick and %d after", got, threshold)
				}
				if p.breaker(sick.URL()) != 1 {
					t.Error("its breaker is not open")
				}
				p.wantNoBreakers(t, sick.URL())
				if got := well.Stats().TotalRequests; int(got) != requests-told {
					t.Errorf("the other one had %d requests, want %d", got, requests-told)
				}
			})
		}
	}
}
