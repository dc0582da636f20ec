package main

import (
	"context"
	"fmt"

	"pdrouter/sim"
)

// A scenario is one way in which engines fail or clients leave.
type scenario struct {
	Title string
	Held  string // what a router must do
	tune  func(*sim.Config)
	play  func(ctx context.Context, f *fleet, p *proxy) outcome
}

// An outcome is how a router took a scenario, with the figure.
type outcome struct {
	Held   bool   `json:"held"`
	Figure string `json:"figure"`
}

// A verdict is a scenario with the outcome of each contender.
type verdict struct {
	Title    string             `json:"title"`
	Held     string             `json:"held_means"`
	Outcomes map[string]outcome `json:"outcomes"` // by the contender's name
}

// faults plays every scenario on every contender, each on a router and engines
// that are fresh: what came before does not count.
func (b *bench) faults(ctx context.Context) ([]verdict, error) {
	var all []verdict
	for _, s := range scenarios() {
		v := verdict{Title: s.Title, Held: s.Held, Outcomes: map[string]outcome{}}
		for _, c := range contenders() {
			got, err := b.playOne(ctx, s, c)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil && c.Name == ours {
				return nil, err
			}
			if err != nil {
				say("%v", err)
				got = outcome{Figure: "did not start"}
			}
			say("%s: %s: held %t: %s", s.Title, c, got.Held, got.Figure)
			v.Outcomes[c.String()] = got
		}
		all = append(all, v)
	}
	return all, nil
}

func (b *bench) playOne(ctx context.Context, s scenario, c contender) (outcome, error) {
	f, err := newFleet(ctx, c.Dialect, pairs(), s.tune)
	if err != nil {
		return outcome{}, err
	}
	defer f.stop()
	p, err := b.start(ctx, c, f)
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w", s.Title, err)
	}
	defer p.stop()
	return s.play(ctx, f, p), nil
}
