package bench

import (
	"fmt"

	"pdrouter/policy"
	"pdrouter/workers"
)

// A Policy makes a policy anew for each replay: policies learn.
type Policy struct {
	Name string
	Make func(seed uint64) workers.Chooser
}

// PolicyOf returns the policy of that name: one of ours, of References, or
// "cache_aware_at_once", which is ours without a hold.
func PolicyOf(name string, cfg policy.Config, e Engine) (Policy, error) {
	if Reference(name, e, 0) != nil {
		return Policy{name, func(seed uint64) workers.Chooser { return Reference(name, e, seed) }}, nil
	}
	cfg.BlockBytes = policy.BlockBytes // what stands for a block of the trace
	ours := name
	if name == "cache_aware_at_once" {
		ours, cfg.Hold = "cache_aware", 0
	}
	if _, ok := policy.New(ours, ours, cfg); !ok {
		return Policy{}, fmt.Errorf("policy: %q is unknown", name)
	}
	return Policy{name, func(seed uint64) workers.Chooser {
		cfg := cfg
		cfg.Seed = seed
		c, _ := policy.New(ours, ours, cfg)
		return c
	}}, nil
}

// Means replays reqs with p, once with each of so many seeds, and returns the
// means.
func (v Virtual) Means(reqs []Request, p Policy, seeds int) Row {
	rows := make([]Row, seeds)
	for i := range rows {
		v.Seed = uint64(i)
		rows[i] = RowOf(p.Name, v.Run(reqs, p.Make(v.Seed)))
	}
	return Mean(rows)
}
