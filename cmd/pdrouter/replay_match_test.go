package main

import (
	"math"
	"testing"
	"time"

	"pdrouter/bench"
	"pdrouter/policy"
	"pdrouter/sim"
	"pdrouter/workers"
)

// A replayedFleet is one that a trace is replayed on, over HTTP and on the
// virtual clock.
type replayedFleet struct {
	workers int // prefill workers
	engine  bench.Engine
	speed   float64 // of the trace

	// clock is how many times as fast as engine's the simulated engines are,
	// and as speed the trace is played to them.
	clock float64
}

// small makes of each block of the trace and of the engines one of a quarter of
// its tokens, and of each answer one token: the same replay, with less text.
func (r replayedFleet) small(reqs []bench.Request) replayedFleet {
	const block, less = bench.BlockTokens / 4, 4
	for i := range reqs {
		q := &reqs[i]
		q.Block, q.OutputLength = block, 1 // decode is not modelled
		q.InputLength = (q.InputLength + less - 1) / less
	}
	r.engine.Block = block
	r.engine.KVTokens /= less
	r.engine.PerSecond /= less
	return r
}

// overHTTP returns what clients of a router at url see, on the trace's clock.
func (r replayedFleet) overHTTP(t *testing.T, url string, reqs []bench.Request) bench.Row {
	t.Helper()
	c := &bench.Client{URL: url, Model: sim.DefaultConfig().Model, HTTP: newClient(t)}
	c.HTTP.Timeout = 0
	var tally bench.Tally
	play := bench.Replay{Client: c, Speed: r.speed * r.clock, MaxOpen: len(reqs)}
	if err := play.Run(t.Context(), reqs, &tally); err != nil {
		t.Fatal(err)
	}
	n := tally.Totals()
	if n.Failed > 0 || n.Told != len(reqs) {
		t.Fatalf("%d of %d requests failed, %d said what was cached: %q", n.Failed, n.Done, n.Told, n.Faults)
	}
	row := n.Row("over HTTP")
	row.TTFTMean *= r.clock
	return row
}

// onClock returns what the same comes to on the virtual clock.
func (r replayedFleet) onClock(t *testing.T, name string, reqs []bench.Request) bench.Row {
	t.Helper()
	p, err := bench.PolicyOf(name, policy.DefaultConfig(), r.engine)
	if err != nil {
		t.Fatal(err)
	}
	v := bench.Virtual{Workers: r.workers, Speed: r.speed, Engine: r.engine}
	return v.Means(reqs, p, 3)
}

// start runs engines as the model has them, and a router with that policy.
func (r replayedFleet) start(t *testing.T, name string) *fleet {
	t.Helper()
	cfg := localConfig()
	cfg.Policy = name
	f := &fleet{}
	add := func(role workers.Role, change func(*sim.Config)) *sim.Engine {
		e := startEngine(t, sim.SGLang, role.String(), change)
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: role, URL: e.URL()})
		return e
	}
	for range r.workers {
		f.prefill = append(f.prefill, add(workers.Prefill, func(c *sim.Config) {
			c.KVTokens, c.BlockSize = r.engine.KVTokens, r.engine.Block
			c.MaxRunning = 1 // one after the other, as the model does
			c.PrefillPerToken = time.Duration(float64(time.Second) / r.engine.PerSecond / r.clock)
		}))
	}
	f.decode = append(f.decode, add(workers.Decode, func(c *sim.Config) {
		c.KVTokens, c.BlockSize, c.MaxRunning = 1<<22, r.engine.Block, 1<<12
	}))
	f.start(t, cfg)
	return f
}

// TestReplayMatchesModel: over HTTP the hit ratio is within two points of that
// on the virtual clock. Where this machine is too slow for the engines, prompts
// wait for it and not for them, and a policy that sees to load may see something
// else: then the clock is slowed down.
func TestReplayMatchesModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	reqs, err := bench.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	reqs = bench.Before(reqs, 3*time.Minute)
	r := replayedFleet{workers: 8, engine: bench.DefaultEngine(), speed: 1.5}
	r.engine.PerPrompt, r.engine.KVTokens = 0, 1_000_000
	r = r.small(reqs)
	for _, tt := range []struct {
		policy string
		within float64
	}{
		{"cache_aware", 0.02},
		{"prefix_hash", 0.05}, // where prompts go depends on the workers' URLs
	} {
		t.Run(tt.policy, func(t *testing.T) {
			want := r.onClock(t, tt.policy, reqs)
			for _, clock := range []float64{12, 5} {
				r.clock = clock
				got := r.overHTTP(t, r.start(t, tt.policy).base, reqs)
				t.Logf("%g times as fast: hit ratio %.3f, mean TTFT %.2f s; model %.3f, %.2f s", clock, got.HitRatio, got.TTFTMean, want.HitRatio, want.TTFTMean)
				if math.Abs(got.HitRatio-want.HitRatio) <= tt.within {
					return
				}
				if got.TTFTMean <= 1.7*want.TTFTMean {
					t.Fatalf("the hit ratio over HTTP is %.3f, on the virtual clock %.3f", got.HitRatio, want.HitRatio)
				}
			}
			t.Skip("this machine is too slow")
		})
	}
}
