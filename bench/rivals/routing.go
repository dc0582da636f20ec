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

// A routed is how well a contender chose on one track.
type routed struct {
	Track     string `json:"track"`
	Contender string `json:"contender"`
	Dialect   string `json:"dialect"`
	Hit       spread `json:"hit_ratio"`
	Mean      spread `json:"ttft_mean_s"`
	P99       spread `json:"ttft_p99_s"`
	Imbalance spread `json:"imbalance"`
	Requests  int    `json:"requests"`
	Failed    int    `json:"failed"`
	Rounds    int    `json:"rounds"`
}

// of reports whether it is of the router of that name, whatever its dialect.
func (r routed) of(name string) bool {
	return r.Contender == (contender{name, r.Dialect}).String()
}

// A spread is a figure of several rounds.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// A lap is what one run on a track showed.
type lap struct {
	hit, mean, p99, imbalance float64
	requests, failed          int
}

// The trace runs three times as fast as it was recorded.
const (
	traceSpeed  = 3
	decodeToken = 2 * time.Millisecond
	traceKV     = 3_000_000 // tokens that an engine holds
)

// A track is the fleet that the trace meets.
type track struct {
	title string
	size  size
	token time.Duration // that prefill needs for one that is not cached
	all   bool          // every router runs; else ours and smg
}

// tracks differ in how many engines there are to choose from, and in how much
// is asked of them: the prompts of the slice's 300 s have 12.4 million tokens.
// Overloaded engines show what a hit is worth against a short queue.
func tracks() []track {
	return []track{
		{"two prefill engines, 0.78 of what they can compute", size{2, 2}, 12500 * time.Nanosecond, true},
		{"four prefill engines, 0.78 of what they can compute", size{4, 2}, 25 * time.Microsecond, false},
		{"two prefill engines, twice what they can compute", size{2, 2}, 33 * time.Microsecond, false},
	}
}

// engines makes the simulated engines those of the track.
func (t track) engines(c *sim.Config) {
	c.PrefillPerToken, c.DecodePerToken, c.KVTokens, c.MaxRunning = t.token, decodeToken, traceKV, 256
}

// contenders are the routers of a track in a round: ours and smg in each, the
// others in the first.
func (t track) contenders(round int) []contender {
	all := contenders()
	if t.all && round == 0 {
		return all
	}
	both := all[:2]
	return []contender{both[round%2], both[(round+1)%2]}
}

// routing sends the trace to the routers in turns.
func (b *bench) routing(ctx context.Context) ([]routed, error) {
	runs := map[track]map[contender][]lap{}
	for round := range b.opts.rounds {
		for _, t := range tracks() {
			if runs[t] == nil {
				runs[t] = map[contender][]lap{}
			}
			for _, c := range t.contenders(round) {
				say("round %d of %d: %s: %s", round+1, b.opts.rounds, t.title, c)
				got, err := b.routeOne(ctx, t, c)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", t.title, c, err)
				}
				say("hit ratio %.3f, TTFT mean %.3f s, p99 %.2f s, imbalance %.2f, %d of %d failed",
					got.hit, got.mean, got.p99, got.imbalance, got.failed, got.requests)
				runs[t][c] = append(runs[t][c], got)
			}
		}
	}
	var all []routed
	for _, t := range tracks() {
		for _, c := range contenders() {
			if some := runs[t][c]; len(some) > 0 {
				all = append(all, t.sum(c, some))
			}
		}
	}
	return all, nil
}

// sum makes one of all runs of a contender; requests are added up.
func (t track) sum(c contender, runs []lap) routed {
	over := func(get func(lap) float64) spread {
		var all []float64
		for _, r := range runs {
			all = append(all, get(r))
		}
		slices.Sort(all)
		return spread{(all[len(all)/2] + all[(len(all)-1)/2]) / 2, all[0], all[len(all)-1]}
	}
	out := routed{
		Track: t.title, Contender: c.String(), Dialect: c.Dialect, Rounds: len(runs),
		Hit:       over(func(r lap) float64 { return r.hit }),
		Mean:      over(func(r lap) float64 { return r.mean }),
		P99:       over(func(r lap) float64 { return r.p99 }),
		Imbalance: over(func(r lap) float64 { return r.imbalance }),
	}
	for _, r := range runs {
		out.Requests += r.requests
		out.Failed += r.failed
	}
	return out
}

func (b *bench) routeOne(ctx context.Context, t track, c contender) (lap, error) {
	f, err := newFleet(ctx, c.Dialect, t.size, t.engines)
	if err != nil {
		return lap{}, err
	}
	defer f.stop()
	p, err := b.start(ctx, c, f)
	if err != nil {
		return lap{}, err
	}
	defer p.stop()
	before := f.prefillStats()
	got, err := b.replay(ctx, p)
	if err != nil {
		return lap{}, err
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
func (r *lap) see(before, after []sim.Stats) error {
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
	r.hit, r.imbalance = hit/queried, most/(sum/float64(len(before)))
	return nil
}

// replay sends the trace with pdrouter replay.
func (b *bench) replay(ctx context.Context, p *proxy) (lap, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.slice+3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.opts.router, "replay", "--live", p.url, "--model", "sim-model", "--json",
		"--duration", b.opts.slice.String(), "--speed", strconv.Itoa(traceSpeed))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return lap{}, fmt.Errorf("replay: %w", err)
	}
	var row struct {
		Mean     float64 `json:"ttft_mean_s"`
		P99      float64 `json:"ttft_p99_s"`
		Requests int     `json:"requests"`
		Failed   int     `json:"failed"`
	}
	if err := json.Unmarshal(out, &row); err != nil {
		return lap{}, fmt.Errorf("read what replay says: %w", err)
	}
	return lap{mean: row.Mean, p99: row.P99, requests: row.Requests, failed: row.Failed}, nil
}
