package main

import (
	"slices"

	"pdrouter/bench"
	"pdrouter/policy"
)

// A line is one of the table: what a replay came to with each trace, and what
// it was to come to.
type line struct {
	title                   string
	conversation, synthetic bench.Row
	wanted, wantedSynthetic bench.Goal
}

// A part is lines that belong together. They are made when they are asked for.
type part struct {
	title string
	lines []func() line
}

// parts returns all of the table.
func (t *table) parts() []part {
	all := []part{{title: "Others, as published"}, {title: "Ours"}}
	var named []string
	for _, c := range bench.Cases() {
		to := &all[1]
		if c.Conversation.Published {
			to = &all[0]
		}
		named = append(named, c.Policy)
		to.lines = append(to.lines, func() line { return t.replayed(c) })
	}
	others := part{title: "Ours, without a goal"}
	for _, name := range policy.Names() {
		if !slices.Contains(named, name) {
			others.lines = append(others.lines, func() line {
				return t.replayed(bench.Case{Title: name, Policy: name, Fleet: bench.Published()})
			})
		}
	}
	if all = append(all, others); t.whole {
		all = append(all, t.upset())
	}
	return all
}

// upset returns the lines of what happens to a fleet.
func (t *table) upset() part {
	p := part{title: "When something happens (to a worker: at half time; figures are of minutes 2 to 9.5 after it)"}
	for _, c := range []struct{ title, policy string }{{"at once", bench.AtOnce}, {"bound late", "cache_aware"}} {
		p.lines = append(p.lines, func() line {
			v := bench.Published()
			base := v.Means(t.conversation, policyOf(c.policy, v.Engine), t.seeds)
			v.Stale = bench.Stale
			return line{
				title: c.title + ", reports 5 s old", wanted: bench.StaleGoal(base),
				conversation: v.Means(t.conversation, policyOf(c.policy, v.Engine), t.seeds),
			}
		})
		for kind, what := range []string{"dies", "is added", "is flushed"} {
			p.lines = append(p.lines, func() line {
				v := bench.Published()
				calm := v.Recovery(t.conversation, policyOf(c.policy, v.Engine), t.seeds)
				return line{
					title: c.title + ", a worker " + what, wanted: bench.RecoveryGoal(calm),
					conversation: v.Recovery(t.conversation, policyOf(c.policy, v.Engine), t.seeds, bench.UpsetKind(kind)),
				}
			})
		}
	}
	return p
}

// replayed replays a case. Goals are those of the whole traces.
func (t *table) replayed(c bench.Case) line {
	p := policyOf(c.Policy, c.Fleet.Engine)
	l := line{title: c.Title, conversation: c.Fleet.Means(t.conversation, p, t.seeds)}
	if t.whole {
		l.synthetic = c.Fleet.Means(t.synthetic, p, t.seeds)
		l.wanted, l.wantedSynthetic = c.Conversation, c.Synthetic
	}
	return l
}

// policyOf returns a policy that there is.
func policyOf(name string, e bench.Engine) bench.Policy {
	p, err := bench.PolicyOf(name, policy.DefaultConfig(), e)
	if err != nil {
		panic("table: " + err.Error())
	}
	return p
}
