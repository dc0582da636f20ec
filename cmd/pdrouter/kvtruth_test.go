package main

import (
	"testing"
	"time"

	"pdrouter/bench"
	"pdrouter/sim"
	"pdrouter/workers"
)

// TestLedgerIsTrueOverHTTP replays a part of a public trace on engines whose KV
// is full to 90 % by what comes, ten times as fast, with a quarter of its
// tokens. What the router believes of each decode engine is within 5 % of what
// there is, 99 % of the time.
func TestLedgerIsTrueOverHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	const (
		part  = 100 * time.Second
		clock = 10
		less  = 4
		load  = 0.9
		token = less * 30 * time.Millisecond / clock
		block = bench.BlockTokens / less
	)
	all, err := bench.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	reqs := bench.Before(all, part)
	work := 0.0 // tokens of KV, times seconds
	for i := range reqs {
		q := &reqs[i]
		q.Block, q.InputLength, q.OutputLength = block, (q.InputLength+less-1)/less, (q.OutputLength+less-1)/less
		work += float64(q.OutputLength) * token.Seconds() * (float64(q.InputLength) + float64(q.OutputLength)/2)
	}
	capacity := work / (part.Seconds() / clock) / load / 2
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			cfg := localConfig()
			cfg.Workers.LoadInterval = time.Second / clock
			f := &fleet{}
			for i := range 6 {
				role := [...]workers.Role{workers.Prefill, workers.Decode}[i/4]
				e := startEngine(t, dialect, role.String(), func(c *sim.Config) {
					c.BlockSize, c.MaxRunning, c.KVTokens = 16, 1024, 1<<20
					c.PrefillPerToken = less * 50 * time.Microsecond / clock
					if role == workers.Decode {
						c.KVTokens, c.DecodePerToken = int(capacity), token
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
			// Then it is known how many bytes a token has.
			if res := client.Complete(t.Context(), bench.Ask{Prompt: prompt(0, 16<<10), Tokens: 8}); res.Err != nil {
				t.Fatal(res.Err)
			}
			var tally bench.Tally
			play := bench.Replay{Client: client, Speed: clock, MaxOpen: len(reqs)}
			differences := watchKV(f)
			if err := play.Run(t.Context(), reqs, &tally); err != nil {
				t.Fatal(err)
			}
			off, used := differences()
			n := tally.Totals()
			t.Logf("%d requests, engines of %.0f tokens in use to %.2f on average, the ledger off by %.3f in the middle, %.3f at 95 %%, %.3f at 99 %%, %.3f at most",
				len(reqs), capacity, used, at(off, 0.5), at(off, 0.95), at(off, 0.99), at(off, 1))
			if n.Failed > 0 {
				t.Errorf("%d of %d requests failed: %q", n.Failed, n.Done, n.Faults)
			}
			for _, e := range f.decode {
				if n := e.Stats().Preemptions; n > 0 {
					t.Errorf("%s preempted %d times", e.URL(), n)
				}
			}
			if at(off, 0.99) > 0.05 {
				t.Errorf("the ledger is off by %.3f at 99 %%", at(off, 0.99))
			}
		})
	}
}
