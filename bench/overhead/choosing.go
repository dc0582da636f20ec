package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"pdrouter/exchange"
	"pdrouter/health"
	"pdrouter/policy"
	"pdrouter/workers"
)

// choose is the name of what is no workload, because no leg is sent: the
// registry, the policy and the breakers by themselves, in this process.
const choose = "choose"

// A choosing is what it costs to choose a pair, lease it, ask three breakers and
// tell them how both legs ended, with that many workers. CPU is in microseconds.
// With cache_aware it includes hashing a prompt of 32 KB, half of which other
// prompts begin with too.
type choosing struct {
	Policy  string  `json:"policy"`
	Workers int     `json:"workers"`
	CPU     float64 `json:"cpu_us"`
	Goal    float64 `json:"goal_us"`
}

// choosingGoals are those that are measured, with what they may cost.
func choosingGoals() []choosing {
	return []choosing{{"prefix_hash", 8, 0, 8}, {"prefix_hash", 128, 0, 25}, {"cache_aware", 8, 0, 15}, {"cache_aware", 128, 0, 60}}
}

// measureChoosing measures all of them; the median of as many rounds counts.
func measureChoosing(ctx context.Context, rounds int) ([]choosing, error) {
	all := choosingGoals()
	for i := range all {
		d, err := newDispatch(ctx, all[i], health.DefaultConfig())
		if err != nil {
			return nil, fmt.Errorf("choose among %d workers by %s: %w", all[i].Workers, all[i].Policy, err)
		}
		var took []float64
		for range rounds {
			one, err := d.measure(ctx, choosingRequests)
			if err != nil {
				return nil, err
			}
			took = append(took, one)
		}
		slices.Sort(took)
		all[i].CPU = took[len(took)/2]
		d.registry.Close()
	}
	return all, nil
}

const (
	// choosingRequests is how many are measured at a time: half a second's.
	choosingRequests = 100_000

	// underWay is how many requests have their leases at a time, and prompts how
	// many groups of prompts there are that begin alike.
	underWay = 64
	prompts  = 1000

	// promptBytes is the length of a prompt, of which the second half is its
	// own.
	promptBytes = 32 << 10
)

// A dispatch is all that decides where a request goes, as cmd puts it together,
// with workers that are ready and are never asked anything.
type dispatch struct {
	registry *workers.Registry
	pairs    [underWay]workers.Pair
	chains   [underWay][]uint64
	prompt   []byte
	requests int
}

// newDispatch returns a dispatch of so many workers, half of them for prefill.
func newDispatch(ctx context.Context, c choosing, cfg health.Config) (*dispatch, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	engines := newFleet(sglang)
	var serving errgroup.Group
	defer func() { stop(); _ = serving.Wait() }() // they were needed to say what they are
	known := workers.DefaultConfig()
	for i := range c.Workers {
		role := workers.Role(i % 2)
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		serving.Go(func() error { return engines.serve(ctx, ln, role.String()) })
		known.Specs = append(known.Specs, workers.Spec{Role: role, URL: "http://" + ln.Addr().String()})
	}
	settings := policy.DefaultConfig()
	settings.Hold = 0 // a leg ends when others have come, so that who is kept for it waits for ever
	chooser, _ := policy.New(c.Policy, c.Policy, settings)
	registry, err := workers.NewRegistry(known, exchange.DefaultConfig(), chooser, func(workers.Event) {})
	if err != nil {
		return nil, err
	}
	registry.SetJudge(health.NewJudge(cfg, registry, func(health.Event) {}))
	registry.Look(ctx)
	d := &dispatch{registry: registry, prompt: make([]byte, promptBytes)}
	for _, s := range registry.Statuses() {
		if s.State != workers.Ready {
			return nil, fmt.Errorf("%s is %s: %s", s.Worker.ID, s.State, s.Reason)
		}
	}
	for range underWay {
		if err := d.next(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// end ends both legs of a request.
func (d *dispatch) end(pair *workers.Pair) {
	pair.Prefill.Computed(promptBytes/4, promptBytes/8)
	pair.Prefill.Done(nil)
	pair.Decode.Done(nil)
}

// next ends the oldest request under way, if there are as many, and begins one.
func (d *dispatch) next(ctx context.Context) error {
	slot := d.requests % underWay
	pair := &d.pairs[slot]
	if d.requests >= underWay {
		d.end(pair)
	}
	d.requests++
	return d.registry.Lease(ctx, d.need(slot), pair)
}

// need returns what the next request asks of a pair.
func (d *dispatch) need(slot int) workers.Need {
	number := uint64(d.requests%prompts + 1)
	block := d.registry.BlockBytes()
	if block == 0 {
		return workers.Need{Key: number * 0x9e3779b97f4a7c15} // spread as a hash is
	}
	binary.LittleEndian.PutUint64(d.prompt, number%(prompts/10))
	binary.LittleEndian.PutUint64(d.prompt[promptBytes/2:], number)
	chain := policy.Chain(d.chains[slot][:0], nil, [][]byte{d.prompt}, block)
	d.chains[slot] = chain
	return workers.Need{Key: policy.KeyOf(chain, block), Prompt: workers.Prompt{Chain: chain, Block: block, Bytes: promptBytes}}
}

// measure returns the CPU of this process for each of n requests.
func (d *dispatch) measure(ctx context.Context, n int) (micros float64, err error) {
	runtime.GC() // what others have left is not ours
	before := processCPU()
	for range n {
		if err := d.next(ctx); err != nil {
			return 0, err
		}
	}
	return float64((processCPU() - before).Nanoseconds()) / 1e3 / float64(n), nil
}

// processCPU returns the CPU time that this process has used.
func processCPU() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails for unknown arguments only
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
