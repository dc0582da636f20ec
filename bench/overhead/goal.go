package main

import "fmt"

// goals says how the router stands to what it is to reach.
func (r *report) goals() []string {
	said := []string{}
	say := func(reached bool, format string, args ...any) {
		verdict := "missed:  "
		if reached {
			verdict = "reached: "
		}
		said = append(said, verdict+fmt.Sprintf(format, args...))
	}
	for _, goal := range []struct {
		workload string
		ratio    float64
	}{
		{"1kb", 0.5}, {"1mb", 1}, {"stream", 1},
	} {
		o := r.find(goal.workload, router)
		if o == nil {
			continue
		}
		if got, ok := r.result(o).Ratios[twoLeg]; ok {
			say(got <= goal.ratio, "%s: %.2f of the two-leg baseline's CPU, at most %.2f wanted", goal.workload, got, goal.ratio)
		}
	}
	if o := r.find(held, router); o != nil {
		const mb = 64
		got := r.result(o)
		say(got.Peak < mb, "%d open streams: %.1f MB RSS at the most, less than %d MB wanted", r.opts.streams, got.Peak, mb)
	}
	for _, c := range r.choosing {
		say(c.CPU <= c.Goal, "choosing among %d workers by %s, leases and breakers: %.1f us of CPU per request, at most %.0f wanted", c.Workers, c.Policy, c.CPU, c.Goal)
	}
	return said
}
