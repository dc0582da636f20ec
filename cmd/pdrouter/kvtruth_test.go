package main

import (
	"testing"
	"time"

	"pdrouter/bench"
	"pdrouter/sim"
	"pdrouter/workers"
)

// A traced is a part of a public trace, played faster than it was, with a
// quarter of its tokens, to engines whose KV it fills to 90 %.
type traced struct {
	reqs     []bench.Request
	clock    float64
	token    time.Duration // of an answer
	capacity float64       // of each of two decode engines, in tokens
}

const (
	tracedLess  = 4
	tracedLoad  = 0.9
	tracedBlock = bench.BlockTokens / tracedLess
)

// newTraced returns ten seconds' worth of the trace.
func newTraced(t *testing.T, clock float64) *traced {
	t.Helper()
	all, err := bench.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	const takes = 10 * time.Second
	tr := &traced{
		reqs:  bench.Before(all, time.Duration(clock)*takes),
		clock: clock, token: time.Duration(tracedLess * float64(30*time.Millisecond) / clock),
	}
	work := 0.0 // tokens of KV, times seconds
	for i := range tr.reqs {
		q := &tr.reqs[i]
		q.Block, q.InputLength, q.OutputLength = tracedBlock, (q.InputLength+tracedLess-1)/tracedLess, (q.OutputLength+tracedLess-1)/tracedLess
		work += float64(q.OutputLength) * tr.token.Seconds() * (float64(q.InputLength) + float64(q.OutputLength)/2)
	}
	tr.capacity = work / takes.Seconds() / tracedLoad / 2
	return tr
}

// start runs four prefill engines, two for decode and a router, which has seen
// one prompt and knows how many bytes a token has.
func (tr *traced) start(t *testing.T, dialect string) (*fleet, *bench.Client) {
	t.Helper()
	cfg := localConfig()
	cfg.Workers.LoadInterval = time.Duration(float64(time.Second) / tr.clock)
	f := &fleet{}
	for i := range 6 {
		role := [...]workers.Role{workers.Prefill, workers.Decode}[i/4]
		e := startEngine(t, dialect, role.String(), func(c *sim.Config) {
			c.BlockSize, c.MaxRunning, c.KVTokens = 16, 1024, 1<<20
			c.PrefillPerToken = time.Duration(tracedLess * float64(50*time.Microsecond) / tr.clock)
			if role == workers.Decode {
				c.KVTokens, c.DecodePerToken = int(tr.capacity), tr.token
			}
		})
		if role == workers.Decode {
			f.decode = append(f.decode, e)
		}
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: role, URL: e.URL()})
	}
	f.start(t, cfg)
	client := &bench.Client{URL: f.base, Model: sim.DefaultConfig().Model, HTTP: newClient(t)}
	client.HTTP.Timeout = 0
	if res := client.Complete(t.Context(), bench.Ask{Prompt: prompt(0, 16<<10), Tokens: 8}); res.Err != nil {
		t.Fatal(res.Err)
	}
	return f, client
}

// play plays the trace, and returns how far what the router believes is from
// what there is, as shares of the capacity, sorted.
func (tr *traced) play(t *testing.T, dialect string) (off []float64) {
	t.Helper()
	f, client := tr.start(t, dialect)
	var tally bench.Tally
	play := bench.Replay{Client: client, Speed: tr.clock, MaxOpen: len(tr.reqs)}
	differences := watchKV(f)
	if err := play.Run(t.Context(), tr.reqs, &tally); err != nil {
		t.Fatal(err)
	}
	off, used := differences()
	n := tally.Totals()
	t.Logf("%g times as fast: %d requests, engines of %.0f tokens in use to %.2f on average, the ledger off by %.3f in the middle, %.3f at 95 %%, %.3f at 99 %%, %.3f at most",
		tr.clock, n.Done, tr.capacity, used, at(off, 0.5), at(off, 0.95), at(off, 0.99), at(off, 1))
	if n.Failed > 0 {
		t.Errorf("%d of %d requests failed: %q", n.Failed, n.Done, n.Faults)
	}
	for _, e := range f.decode {
		if n := e.Stats().Preemptions; n > 0 {
			t.Errorf("%s preempted %d times", e.URL(), n)
		}
	}
	return off
}

// TestLedgerIsTrueOverHTTP: at 90 % load, what the router believes of each
// decode engine is within 5 % of what there is, 99 % of the time. What is on its
// way to an engine counts as there, so that a machine that is too slow for the
// clock shows more: then that is slowed down. If it is too slow still, 95 % of
// the time will do.
func TestLedgerIsTrueOverHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			if at(newTraced(t, 10).play(t, dialect), 0.99) <= 0.05 {
				return
			}
			off := newTraced(t, 3).play(t, dialect)
			if at(off, 0.5) > 0.02 || at(off, 0.95) > 0.05 {
				t.Fatalf("the ledger is off by %.3f in the middle, %.3f at 95 %%", at(off, 0.5), at(off, 0.95))
			}
			if at(off, 0.99) > 0.05 {
				t.Skip("this machine is too slow")
			}
		})
	}
}
