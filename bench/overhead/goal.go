package main

import "fmt"

// mostOfFloor is what the router may cost, of what two legs on pooled
// connections cost without it: everything else that it does.
const mostOfFloor = 1.4

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
	for _, name := range []string{"1kb", "32kb", "1mb", "stream"} {
		o := r.find(name, router)
		if o == nil {
			continue
		}
		if got, ok := r.result(o).Ratios[pooled]; ok {
			say(got <= mostOfFloor, "%s: %.2f of the bare floor's CPU, at most %.2f wanted", name, got, mostOfFloor)
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
