package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"pdrouter/bench"
	"pdrouter/policy"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A replayOrder is what pdrouter replay is told to do.
type replayOrder struct {
	trace    string // a file, or "-"; empty: the slice that is part of the program
	duration time.Duration
	requests int
	speed    float64
	asJSON   bool

	policies []string
	fleet    bench.Virtual
	cfg      policy.Config
	seeds    int

	live liveOrder
}

func newReplayCommand() *cobra.Command {
	o := replayOrder{fleet: bench.Published(), cfg: policy.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Run a trace against policies, or against a running router",
		Long: `replay runs a trace of LLM requests against policies, on a virtual clock: hours
of traffic in seconds. The policies are those of the daemon. The workers are a
model: each computes one prompt after the other, 30 ms and 0.1 ms for each token
that is not cached, and caches the last --kv-tokens of them. A policy knows of
them what a router can know. The same seeds give the same figures.

Policies whose names begin with ref_ are not ours: they are rebuilt from what
others describe, to be compared with, and know how fast the model's workers are.

With --live it sends the requests of the trace to a running router instead, as
they are due, with prompts made of the trace's ids, and reports what clients saw.

Traces may have Mooncake's form (JSON lines), Alibaba's (JSON lines, 16-token
ids), Azure's (CSV) or ShareGPT's (JSON); which one is found out.`,
		Example: `  pdrouter replay
  pdrouter replay --trace conversation_trace.jsonl --policy cache_aware,ref_sglang --workers 8 --kv-tokens 3000000 --speed 1.5 --json
  pdrouter replay --live http://127.0.0.1:30001 --duration 1m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	o.bind(cmd)
	return cmd
}

// onClock are the flags that have a meaning on the virtual clock only, and
// onWire those that have one with --live.
func onClock() []string { return []string{"policy", "workers", "kv-tokens", "seeds", "stale", "hold"} }
func onWire() []string  { return []string{"model", "api-key", "max-open"} }

// bind adds the flags whose values o is to have.
func (o *replayOrder) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.trace, "trace", "", "`file` with the trace, - for standard input; default five minutes of a public one, part of this program")
	f.DurationVar(&o.duration, "duration", 0, "no more of the trace than its first `time`, such as 2m; 0 is all of it")
	f.IntVar(&o.requests, "requests", 0, "no more of its requests than the first `n`; 0 is all")
	f.Float64Var(&o.speed, "speed", o.fleet.Speed, "how many `times` as fast as in the trace requests come")
	f.BoolVar(&o.asJSON, "json", false, "print one line of JSON for each policy")
	f.StringSliceVar(&o.policies, "policy", nil, "`names` of policies, with commas between them, of "+strings.Join(bench.PolicyNames(), ", ")+"; default those that a table of them is good for")
	f.IntVar(&o.fleet.Workers, "workers", o.fleet.Workers, "prefill workers")
	f.IntVar(&o.fleet.Engine.KVTokens, "kv-tokens", o.fleet.Engine.KVTokens, "`tokens` that each of them caches")
	f.IntVar(&o.seeds, "seeds", 3, "replays of each policy, of which the means count: seed decides between equals")
	f.DurationVar(&o.fleet.Stale, "stale", 0, "how old the workers' reports are when they come, such as 5s")
	f.Var(newHold(&o.cfg.Hold), "hold", "for how long cache_aware may keep a request for a worker that will be free soon")
	f.StringVar(&o.live.url, "live", "", "`URL` of a running router to send the requests to, as in http://127.0.0.1:30001")
	f.StringVar(&o.live.model, "model", "", "with --live: `name` of the model to ask for; default the first that the router has")
	f.Var(newSecret(&o.live.key), "api-key", "with --live: bearer key to send")
	f.IntVar(&o.live.maxOpen, "max-open", 256, "with --live: requests that are open at a time; those beyond are sent late")
	// The flag is there, and there is nothing else to fail.
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(bench.PolicyNames(), cobra.ShellCompDirectiveNoFileComp))
}

// usualPolicies are all of ours that choose by themselves, and those of others
// that a person may know. (manual goes by a key that traces do not have, and
// passthrough gives all to one worker; round robin is the same everywhere.)
func usualPolicies() []string {
	return []string{
		"cache_aware", bench.AtOnce, "prefix_hash", "consistent_hashing", "bucket", "least_load", "power_of_two", "round_robin", "random",
		"ref_sglang", "ref_llm_d",
	}
}

// run does it.
func (o *replayOrder) run(cmd *cobra.Command) error {
	if err := o.validate(); err != nil {
		return asConfigFault(err)
	}
	reqs, name, err := o.read(cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	o.warn(cmd.Flags(), cmd.ErrOrStderr())
	if len(o.policies) == 0 {
		o.policies = usualPolicies()
	}
	r := &replayRun{replayOrder: o, reqs: reqs, name: name, out: newScreen(cmd.OutOrStdout()), progress: newScreen(cmd.ErrOrStderr())}
	if o.live.url != "" {
		err = r.sendAll(cmd.Context())
	} else {
		err = r.compare(cmd.Context())
	}
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

// mostWorkers bounds a fleet on the virtual clock: a policy looks at all of them
// for each request, and each takes memory.
const mostWorkers = 4096

// validate reports all that is wrong with what was asked for.
func (o *replayOrder) validate() error {
	var faults []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	wrong(!(o.speed > 0), "--speed: %v is not above 0", o.speed)
	wrong(o.duration < 0, "--duration: %v is below 0", o.duration)
	wrong(o.requests < 0, "--requests: %d is below 0", o.requests)
	wrong(o.fleet.Workers < 1, "--workers: %d is not above 0", o.fleet.Workers)
	wrong(o.fleet.Workers > mostWorkers, "--workers: %d is above %d", o.fleet.Workers, mostWorkers)
	wrong(o.fleet.Engine.KVTokens < 1, "--kv-tokens: %d is not above 0", o.fleet.Engine.KVTokens)
	wrong(o.seeds < 1, "--seeds: %d is not above 0", o.seeds)
	wrong(o.fleet.Stale < 0, "--stale: %v is below 0", o.fleet.Stale)
	wrong(o.live.maxOpen < 1, "--max-open: %d is not above 0", o.live.maxOpen)
	known := bench.PolicyNames()
	for _, name := range o.policies {
		wrong(!slices.Contains(known, name), "--policy: %q is unknown; did you mean %s? Known are %s", name, nearest(name, known), strings.Join(known, ", "))
	}
	if o.live.url != "" {
		faults = append(faults, o.live.validate())
	}
	return errors.Join(faults...)
}

// warn tells of flags that were given and mean nothing here.
func (o *replayOrder) warn(flags *pflag.FlagSet, w io.Writer) {
	names, why := onWire(), "without --live nothing is sent"
	if o.live.url != "" {
		names, why = onClock(), "with --live the router that runs has its own workers and policy"
	}
	for _, name := range names {
		if flags.Changed(name) {
			fmt.Fprintf(w, "warning: --%s is not looked at: %s\n", name, why)
		}
	}
}

// read returns the requests of the trace, and what it is called.
func (o *replayOrder) read(stdin io.Reader) (reqs []bench.Request, name string, err error) {
	switch o.trace {
	case "":
		name = "five minutes of Mooncake's conversation trace"
		reqs, err = bench.Conversation()
	case "-":
		name = "standard input"
		reqs, _, err = bench.ReadAny(stdin)
	default:
		name = o.trace
		var f *os.File
		if f, err = os.Open(o.trace); err != nil {
			return nil, "", fmt.Errorf("--trace: %w", err) // which names it
		}
		defer f.Close()
		reqs, _, err = bench.ReadAny(f)
	}
	if err != nil {
		return nil, "", fmt.Errorf("--trace: %s: %w", name, err)
	}
	if o.duration > 0 {
		reqs = bench.Before(reqs, o.duration)
	}
	if o.requests > 0 {
		reqs = reqs[:min(o.requests, len(reqs))]
	}
	if len(reqs) == 0 {
		return nil, "", fmt.Errorf("--trace: %s: there is no request to replay", name)
	}
	return reqs, name, nil
}

// A replayRun is a replay that is under way.
type replayRun struct {
	*replayOrder

	reqs          []bench.Request
	name          string // of the trace
	out, progress *screen
}

// errInterrupted is the end of a replay that a person stopped.
var errInterrupted = errors.New("interrupted")

// ended returns errInterrupted if ctx has ended.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}
