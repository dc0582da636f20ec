package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"

	"github.com/spf13/cobra"
)

func newDemoCommand() *cobra.Command {
	var once, asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a simulated fleet and a router at work",
		Long: `demo runs two prefill and two decode engines, simulated, with a router in front
of them, in one process that listens on 127.0.0.1 only. In some 20 seconds it
shows one request from end to end, where equal and different prompts go, and
the beginning of a public trace. Then it goes on serving, for you to try.

Everything it says was observed: in the answers, on the engines, in the router's
access log. If something is not as it must be it says so.`,
		Example: `  pdrouter demo
  pdrouter demo --once --json > facts.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON && !once {
				return asConfigFault(errors.New("--json: give --once, too: the facts are complete when the demo ends"))
			}
			d := &demo{plan: fullPlan(), screen: newScreen(cmd.OutOrStdout()), once: once}
			if asJSON {
				d.screen, d.facts = newScreen(cmd.ErrOrStderr()), cmd.OutOrStdout()
			}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "exit when everything was shown, with status 1 if something was wrong")
	cmd.Flags().BoolVar(&asJSON, "json", false, "with --once: print what was observed as JSON, and the rest on stderr")
	return cmd
}

// A demoPlan is how much a demo shows. Lengths are in tokens.
type demoPlan struct {
	ports demoPorts

	// clock is how many times as fast as real ones the engines are, and as
	// the trace was its replay is. Every time that is shown is multiplied by
	// it, so that it is one of a real fleet; what this machine itself costs
	// is shown as so much longer.
	clock float64

	longPrompt, longAnswer  int // of the request that is watched
	samePrompt, shortPrompt int // of those that are sent several times
	times                   int // that they are sent
	different               int // prompts that are sent at once
	trace                   time.Duration
}

func fullPlan() demoPlan {
	return demoPlan{
		ports: usualPorts(), clock: 10,
		longPrompt: 120_000, longAnswer: 500,
		samePrompt: 6000, shortPrompt: 40, times: 6, different: 30,
		trace: 2 * time.Minute,
	}
}

// What the engines would be like at clock 1: near a host with eight GPUs and a
// large model. Decode has room for some dozens of the trace's prompts at a time,
// prefill keeps those of its last minutes.
const (
	demoPrefillPerToken = 30 * time.Microsecond
	demoDecodePerToken  = 30 * time.Millisecond
	demoPrefillKV       = 2_000_000 // tokens
	demoDecodeKV        = 800_000
)

// engine returns what an engine of that role is like.
func (p demoPlan) engine(role workers.Role) sim.Config {
	kv := demoPrefillKV
	if role == workers.Decode {
		kv = demoDecodeKV
	}
	return sim.Config{
		Dialect:         sim.SGLang,
		Role:            role.String(),
		KVTokens:        kv,
		PrefillPerToken: time.Duration(float64(demoPrefillPerToken) / p.clock),
		DecodePerToken:  time.Duration(float64(demoDecodePerToken) / p.clock),
	}
}

// A demo is one run of the command.
type demo struct {
	plan   demoPlan
	screen *screen
	once   bool
	facts  io.Writer // where the facts go as JSON; nil: nowhere

	fleet *demoFleet
}

// run shows everything, and then serves until ctx ends, or returns if it is to
// be done once. An end of ctx is no error.
func (d *demo) run(ctx context.Context) error {
	fleet, err := startDemoFleet(ctx, d.plan)
	if err != nil {
		return err
	}
	d.fleet = fleet
	d.introduce()
	facts, err := d.show(ctx)
	if err == nil {
		err = d.conclude(facts)
	}
	if err == nil && !d.once {
		d.serveOn(ctx)
	}
	closed := fleet.close()
	if ctx.Err() != nil {
		d.screen.say("Stopped.")
		return closed
	}
	return errors.Join(err, closed)
}

// introduce says what there is.
func (d *demo) introduce() {
	s, f := d.screen, d.fleet
	s.say("%s: two prefill and two decode engines, simulated, with a router", s.paint(bold, "pdrouter demo"))
	s.say("in front of them, all in this process.")
	s.say("")
	for _, line := range f.taken {
		s.say("   %s", s.paint(yellow, line))
	}
	s.say("   router     %s", f.base)
	s.say("   metrics    %s", f.metrics)
	for _, e := range f.engines {
		s.say("   %-9s  %s", e.id, e.URL())
	}
	s.say("")
	s.say("   Prefill computes %s prompt tokens/s, decode generates a token of each", thousands(int(time.Second/demoPrefillPerToken)))
	s.say("   answer every %s. The engines' clock runs %g times as fast as yours: every", timeText(demoDecodePerToken), d.plan.clock)
	s.say("   time below is on that clock. Bars of KV: █ in use, ▒ kept in the cache.")
}

// show shows the three parts.
func (d *demo) show(ctx context.Context) (demoFacts, error) {
	facts := demoFacts{Clock: d.plan.clock}
	var err error
	if facts.Watched, err = d.watchOne(ctx); err != nil {
		return facts, err
	}
	if err = d.showAffinity(ctx, &facts); err != nil {
		return facts, err
	}
	facts.Trace, err = d.replay(ctx)
	return facts, err
}

// conclude says whether all was as it must be. If the demo is to be done once,
// it returns an error if not.
func (d *demo) conclude(facts demoFacts) error {
	facts.Violations, facts.Warnings = d.fleet.violations(), append([]string{}, d.fleet.access.complaints()...)
	facts.Faults = facts.judge()
	s := d.screen
	s.say("")
	if len(facts.Faults) == 0 {
		s.say("%s every answer was right, no engine was misused.", s.paint(green, "All as it must be:"))
	}
	for _, f := range facts.Faults {
		s.say("%s %s", s.paint(red, "Not as it must be:"), f)
	}
	if len(facts.Faults) > 0 {
		for _, w := range facts.Warnings {
			s.say("   the router said: %s", w)
		}
	}
	var err error
	if d.facts != nil {
		enc := json.NewEncoder(d.facts)
		enc.SetIndent("", "  ")
		err = enc.Encode(facts)
	}
	if d.once && len(facts.Faults) > 0 {
		err = errors.Join(err, fmt.Errorf("demo: %d things were not as they must be, see above; please report them with the output of pdrouter version", len(facts.Faults)))
	}
	return err
}

// serveOn serves until ctx ends or a part fails, and shows each request's path.
func (d *demo) serveOn(ctx context.Context) {
	s, f := d.screen, d.fleet
	s.say("")
	s.say("The fleet goes on serving. Try it, in another terminal:")
	s.say("")
	s.say(`   curl -N %s/v1/chat/completions \`, f.base)
	s.say(`     -H 'Content-Type: application/json' -d '{"model":"%s","stream":true,`, f.client.Model)
	s.say(`     "messages":[{"role":"user","content":"Hello"}]}'`)
	s.say("   curl -s %s | grep smg_", f.metrics)
	s.say("")
	s.say("Ctrl-C ends it. Where requests go:")
	f.access.tell(d.sayPassage)
	select {
	case <-ctx.Done():
	case <-f.alive.Done():
	}
}

// sayPassage shows where a request went that somebody else has sent.
func (d *demo) sayPassage(p passage) {
	if p.Prefill == "" {
		d.screen.say("   %d %s %s %s", p.Status, p.Path, p.Message, p.Fault)
		return
	}
	d.screen.say("   %d %s -> %s -> %s, room %d, first token after %s, end after %s %s", p.Status, p.Path, p.Prefill, p.Decode,
		p.Room, timeText(d.onClock(p.TTFT)), timeText(d.onClock(p.Duration)), p.Fault)
}

// onClock returns how long d is on the engines' clock.
func (d *demo) onClock(t time.Duration) time.Duration {
	return time.Duration(float64(t) * d.plan.clock)
}

// kvBar draws how full an engine's KV cache is: what is in use, and what is
// merely kept to be found again.
func (d *demo) kvBar(st sim.Stats, columns int) string {
	total := float64(max(st.TotalBlocks, 1))
	return d.screen.kvBar(columns, float64(st.UsedBlocks)/total, float64(st.IdleBlocks)/total)
}
