package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"pdrouter/sim"

	"github.com/spf13/cobra"
)

// A simOrder is what pdrouter sim is told to run.
type simOrder struct {
	engine              sim.Config
	host                string
	port, bootstrap     int
	prefillUS, decodeUS int // per token
	patience            time.Duration
	faults              []sim.Fault
}

func newSimCommand() *cobra.Command {
	var o simOrder
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run one simulated engine",
		Long: `sim runs one simulated engine until SIGTERM. It speaks a dialect as the real
engines do, holds KV blocks, needs no GPU, and answers each prompt with a text
that is always the same. Its first line of output begins with its URL.

It is strict: what a router must not do to an engine is answered as a real
engine would, and told on stderr as it happens.`,
		Example: `  pdrouter sim --dialect sglang --role prefill --port 21000 --bootstrap-port 21200
  pdrouter sim --dialect sglang --role decode --port 21100
  pdrouter sim --dialect vllm-nixl --role decode --fail die,tokens=5,nth=3,count=1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.bind(cmd)
	return cmd
}

// bind adds the flags whose values o is to have.
func (o *simOrder) bind(cmd *cobra.Command) {
	def, f := sim.DefaultConfig(), cmd.Flags()
	f.StringVar(&o.engine.Dialect, "dialect", sim.SGLang, "what it speaks: "+sim.SGLang+" or "+sim.VLLMNixl)
	f.StringVar(&o.engine.Role, "role", "", "what it does: "+sim.Prefill+" or "+sim.Decode)
	f.StringVar(&o.host, "host", "127.0.0.1", "address to listen on")
	f.IntVar(&o.port, "port", 0, "port to listen on; 0 is any free one")
	f.IntVar(&o.bootstrap, "bootstrap-port", 0, "port where decode engines meet a prefill engine; 0 is any free one")
	f.StringVar(&o.engine.Model, "model", def.Model, "name of the model that it serves")
	f.StringVar(&o.engine.APIKey, "api-key", "", "bearer key that it asks for")
	f.IntVar(&o.engine.KVTokens, "kv-tokens", def.KVTokens, "size of the KV cache, in tokens")
	f.IntVar(&o.engine.BlockSize, "block-size", def.BlockSize, "tokens in a block of the KV cache")
	f.IntVar(&o.engine.MaxRunning, "max-running", def.MaxRunning, "requests that have KV blocks at a time")
	f.IntVar(&o.prefillUS, "prefill-us-per-token", 0, "time to compute a prompt token that is not cached, in microseconds")
	f.IntVar(&o.decodeUS, "decode-us-per-token", 0, "time to generate a token, in microseconds")
	f.DurationVar(&o.engine.Lease, "lease", def.Lease, "how long vllm-nixl's prefill holds blocks that nobody asks for")
	f.DurationVar(&o.patience, "patience", 0, "how long one engine waits for the other at most; 0 is what the real ones do, up to 300s")
	f.DurationVar(&o.engine.DisconnectDelay, "disconnect-delay", 0, "how long it takes to notice that a client has left; 0 is what the real ones take, up to 3s")
	f.BoolVar(&o.engine.Control, "control", false, "serve /sim/faults (POST a fault, DELETE all) and GET /sim/state, for tests")
	f.Var(&faultList{&o.faults}, "fail", "fail as told; may be repeated. KIND: "+strings.Join(faultKinds(), ", ")+". Keys: path, nth, count, status, delay, tokens, comments, peer")
	for flag, words := range map[string][]string{"dialect": {sim.SGLang, sim.VLLMNixl}, "role": {sim.Prefill, sim.Decode}} {
		// The flag is there, and there is nothing else to fail.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// run runs the engine until ctx ends.
func (o *simOrder) run(ctx context.Context, out, complaints io.Writer) error {
	if o.prefillUS < 0 || o.decodeUS < 0 {
		return asConfigFault(errors.New("sim: a time per token must not be negative"))
	}
	if o.engine.Lease < 0 || o.patience < 0 || o.engine.DisconnectDelay < 0 {
		return asConfigFault(errors.New("sim: lease, patience and disconnect delay must not be negative"))
	}
	cfg := o.engine
	cfg.BootstrapTimeout, cfg.WaitingTimeout, cfg.HandshakeTimeout, cfg.LostTimeout = o.patience, o.patience, o.patience, o.patience
	var telling sync.Mutex
	cfg.Violated = func(kind string) {
		telling.Lock()
		defer telling.Unlock()
		fmt.Fprintln(complaints, "violation:", kind)
	}
	cfg.PrefillPerToken = time.Duration(o.prefillUS) * time.Microsecond
	cfg.DecodePerToken = time.Duration(o.decodeUS) * time.Microsecond
	cfg.Addr = net.JoinHostPort(o.host, strconv.Itoa(o.port))
	cfg.BootstrapAddr = net.JoinHostPort(o.host, strconv.Itoa(o.bootstrap))
	e, err := sim.New(cfg)
	if err != nil {
		return asConfigFault(err)
	}
	for _, f := range o.faults {
		e.Fail(f)
	}
	fmt.Fprintf(out, "%s simulated %s %s engine", e.URL(), cfg.Dialect, cfg.Role)
	if cfg.Role == sim.Prefill {
		fmt.Fprintf(out, ", bootstrap port %d", e.BootstrapPort())
	}
	fmt.Fprintln(out)
	return e.Run(ctx)
}
