package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"pdrouter/sim"
)

// A routed is how well a contender chose on the trace; medians of rounds.
type routed struct {
	Contender string  `json:"contender"`
	Hit       float64 `json:"hit_ratio"`
	Mean      float64 `json:"ttft_mean_s"`
	P99       float64 `json:"ttft_p99_s"`
	Imbalance float64 `json:"imbalance"`
	Requests  int     `json:"requests"`
	Failed    int     `json:"failed"`
	Rounds    int     `json:"rounds"`
}

// The trace runs three times as fast as it was recorded, before engines that are
// four times as fast as those of pdrouter replay (0.1 ms for each token): they
// would be busy for 0.7 of the time if nothing were cached.
const (
	traceSpeed   = 3
	prefillToken = 25 * time.Microsecond
	decodeToken  = 2 * time.Millisecond
	traceKV      = 3_000_000 // tokens that an engine holds
)

// traceFleet is the size of that fleet.
func traceFleet() size { return size{4, 2} }

func traceEngine(c *sim.Config) {
	c.PrefillPerToken, c.DecodePerToken, c.KVTokens, c.MaxRunning = prefillToken, decodeToken, traceKV, 256
}

// routing sends the trace to ours and smg in turns.
func (b *bench) routing(ctx context.Context) ([]routed, error) {
	both := contenders()[:2]
	runs := map[string][]routed{}
	for round := range b.opts.rounds {
		for i := range both {
			c := both[(round+i)%len(both)]
			say("routing, round %d of %d: %s", round+1, b.opts.rounds, c)
			got, err := b.routeOne(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c, err)
			}
			say("%+v", got)
			runs[c.Name] = append(runs[c.Name], got)
		}
	}
	var all []routed
	for _, c := range both {
		all = append(all, middle(c.Name, runs[c.Name]))
	}
	return all, nil
}

// middle returns the medians of all figures; failures are added up.
func middle(name string, runs []routed) routed {
	median := func(get func(routed) float64) float64 {
		var all []float64
		for _, r := range runs {
			all = append(all, get(r))
		}
		slices.Sort(all)
		return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
	}
	out := routed{
		Contender: name, Rounds: len(runs),
		Hit:       median(func(r routed) float64 { return r.Hit }),
		Mean:      median(func(r routed) float64 { return r.Mean }),
		P99:       median(func(r routed) float64 { return r.P99 }),
		Imbalance: median(func(r routed) float64 { return r.Imbalance }),
	}
	for _, r := range runs {
		out.Requests += r.Requests
		out.Failed += r.Failed
	}
	return out
}

func (b *bench) routeOne(ctx context.Context, c contender) (routed, error) {
	f, err := newFleet(ctx, c.Dialect, traceFleet(), traceEngine)
	if err != nil {
		return routed{}, err
	}
	defer f.stop()
	p, err := b.start(ctx, c, f)
	if err != nil {
		return routed{}, err
	}
	defer p.stop()
	before := f.prefillStats()
	got, err := b.replay(ctx, p)
	if err != nil {
		return routed{}, err
	}
	return got, got.see(before, f.prefillStats())
}

func (f *fleet) prefillStats() []sim.Stats {
	var all []sim.Stats
	for _, e := range f.prefills {
		all = append(all, e.Stats())
	}
	return all
}

// see tells from the engines what clients do not see.
func (r *routed) see(before, after []sim.Stats) error {
	var hit, queried, most, sum float64
	for i := range before {
		missed := float64(after[i].QueriedTokens-before[i].QueriedTokens) - float64(after[i].HitTokens-before[i].HitTokens)
		hit += float64(after[i].HitTokens - before[i].HitTokens)
		queried += float64(after[i].QueriedTokens - before[i].QueriedTokens)
		most, sum = max(most, missed), sum+missed
	}
	if queried == 0 || sum == 0 {
		return errors.New("the engines had no work")
	}
	r.Hit, r.Imbalance = hit/queried, most/(sum/float64(len(before)))
	return nil
}

// replay sends the trace with pdrouter replay.
func (b *bench) replay(ctx context.Context, p *proxy) (routed, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.slice+3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.opts.router, "replay", "--live", p.url, "--model", "sim-model", "--json",
		"--duration", b.opts.slice.String(), "--speed", strconv.Itoa(traceSpeed))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return routed{}, fmt.Errorf("replay: %w", err)
	}
	var row struct {
		Mean     float64 `json:"ttft_mean_s"`
		P99      float64 `json:"ttft_p99_s"`
		Requests int     `json:"requests"`
		Failed   int     `json:"failed"`
	}
	if err := json.Unmarshal(out, &row); err != nil {
		return routed{}, fmt.Errorf("read what replay says: %w", err)
	}
	return routed{Mean: row.Mean, P99: row.P99, Requests: row.Requests, Failed: row.Failed}, nil
}
