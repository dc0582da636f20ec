package main

import (
	"context"
	"fmt"

	"pdrouter/bench"
	"pdrouter/sim"

	"golang.org/x/sync/errgroup"
)

// showAffinity sends one prompt several times, one that is too short to be
// kept, and many different ones.
func (d *demo) showAffinity(ctx context.Context, facts *demoFacts) error {
	d.screen.title("2. The same prompt goes where its blocks are")
	size := d.fleet.engines[0].Stats().BlockSize
	d.screen.say("   A prompt of %s tokens, %d times. Prefill keeps blocks that it has", thousands(d.plan.samePrompt), d.plan.times)
	d.screen.say("   computed, and does not compute again what it finds. The router knows what it")
	d.screen.say("   sent where, and sends each prompt where its first token is expected first.")
	d.screen.say("")
	d.screen.say("   %s", d.screen.paint(dim, "request  prefill    decode     found in the cache"))
	var err error
	if facts.Same, err = d.repeat(ctx, "demo-same-", d.plan.samePrompt); err != nil {
		return err
	}
	for i, r := range facts.Same.Requests {
		d.screen.say("   %7d  %-9s  %-9s  %s", i+1, r.Prefill, r.Decode, d.foundOf(r, facts.Same.PromptTokens))
	}
	if facts.Short, err = d.repeat(ctx, "demo-short-", d.plan.shortPrompt); err != nil {
		return err
	}
	d.screen.say("")
	d.screen.say("   A prompt of %d tokens, %d times: %s found. Only whole blocks are kept,", d.plan.shortPrompt, d.plan.times, d.foundIn(facts.Short))
	d.screen.say("   of %d tokens, and it does not fill one: there is nothing to find again, so", size)
	d.screen.say("   it goes to whoever has least to do.")
	facts.Different, err = d.spread(ctx)
	return err
}

func (d *demo) foundOf(r sameFact, of int) string {
	switch {
	case r.Failed != "":
		return d.screen.paint(red, "failed: "+r.Failed)
	case r.Found > 0:
		return d.screen.paint(green, fmt.Sprintf("%6s of %s tokens", thousands(r.Found), thousands(of)))
	default:
		return fmt.Sprintf("%6s of %s tokens", thousands(r.Found), thousands(of))
	}
}

// foundIn says how much of a prompt was found in all.
func (d *demo) foundIn(f sameFacts) string {
	found := 0
	for _, r := range f.Requests {
		found += r.Found
	}
	if found == 0 {
		return "nothing"
	}
	return d.screen.paint(red, thousands(found)+" tokens")
}

// sameAnswer is the length of the answers in this part, in tokens.
const sameAnswer = 16

// repeat sends one prompt several times, one after the other.
func (d *demo) repeat(ctx context.Context, name string, tokens int) (sameFacts, error) {
	facts := sameFacts{PromptTokens: tokens, Requests: []sameFact{}}
	prompt := bench.Text(int64(2+tokens), tokens)
	for i := range d.plan.times {
		id := fmt.Sprint(name, i+1)
		before := d.fleet.stats()
		res := d.fleet.client.Complete(ctx, bench.Ask{ID: id, Prompt: prompt, Tokens: sameAnswer})
		if err := ctx.Err(); err != nil {
			return facts, err
		}
		p, err := d.fleet.access.take(id)
		if err != nil {
			return facts, err
		}
		fact := sameFact{Prefill: p.Prefill, Decode: p.Decode, Told: res.CachedTokens}
		_, fact.Found = d.fleet.hits(before)
		if res.Err != nil {
			fact.Failed = res.Err.Error()
		}
		facts.Requests = append(facts.Requests, fact)
	}
	return facts, nil
}

// spread sends different prompts, all at once.
func (d *demo) spread(ctx context.Context) (shareFacts, error) {
	var all errgroup.Group
	before := d.fleet.stats()
	failed := make([]error, d.plan.different)
	for i := range failed {
		all.Go(func() error {
			failed[i] = d.fleet.client.Complete(ctx, bench.Ask{Prompt: bench.Text(int64(1000+i), d.plan.samePrompt), Tokens: sameAnswer}).Err
			return nil
		})
	}
	_ = all.Wait() // errors are in failed
	facts := shareFacts{Shares: d.fleet.served(before), Failed: []string{}}
	for _, err := range failed {
		if err != nil {
			facts.Failed = append(facts.Failed, err.Error())
		}
	}
	d.screen.say("")
	d.screen.say("   %d different prompts at once: none is cached, so each goes to whoever has", d.plan.different)
	d.screen.say("   least to do.")
	d.screen.say("")
	d.sayShares(facts.Shares)
	return facts, ctx.Err()
}

// sayShares shows how requests were shared among the workers of each role.
func (d *demo) sayShares(shares []demoShare) {
	total := map[string]int{}
	for _, s := range shares {
		total[s.Role] += s.Requests
	}
	for _, s := range shares {
		colour := green
		if s.Role == sim.Decode {
			colour = cyan
		}
		share := float64(s.Requests) / float64(max(total[s.Role], 1))
		d.screen.say("   %-10s %s %4d requests, %s", s.Worker, d.screen.bar(34, fill{share, "█", colour}), s.Requests, percent(s.Requests, total[s.Role]))
	}
}
