package policy

import (
	"cmp"
	"slices"

	"pdrouter/workers"
)

// cacheAware is the name of the one policy that is not made of two legs.
const cacheAware = "cache_aware"

// pickers are the policies for a leg, by name.
func pickers() map[string]func(Config, *dice) Picker {
	return map[string]func(Config, *dice) Picker{
		"prefix_hash": func(c Config, _ *dice) Picker {
			return PrefixHash{factor: c.LoadFactor, below: c.BalanceBelow, branches: c.Branches}
		},
		"consistent_hashing": func(c Config, _ *dice) Picker { return ConsistentHashing{factor: c.LoadFactor, branches: c.Branches} },
		"power_of_two":       func(c Config, d *dice) Picker { return PowerOfTwo{c, d} },
		"least_load":         func(c Config, _ *dice) Picker { return LeastLoad{c} },
		"round_robin":        func(Config, *dice) Picker { return RoundRobin{} },
		"random":             func(_ Config, d *dice) Picker { return Random{d} },
		"bucket":             func(c Config, _ *dice) Picker { return &Bucket{cfg: c} },
		"manual":             func(c Config, d *dice) Picker { return newManual(c, d) },
		"passthrough":        func(Config, *dice) Picker { return First{} },
	}
}

// Names returns the names of all policies.
func Names() []string {
	names := []string{cacheAware}
	for name := range pickers() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New returns the policy made of those with the two names, of which cmd has
// filled in --policy where there is no other. Each call makes a new one: a
// policy learns, and belongs to one registry.
func New(prefill, decode string, cfg Config) (workers.Chooser, bool) {
	d := &dice{state: cfg.Seed}
	first, okFirst := leg(prefill, cfg, d)
	second, okSecond := leg(decode, cfg, d)
	switch {
	case !okFirst || !okSecond:
		return nil, false
	case prefill != cacheAware && decode != cacheAware && cfg.Override:
		return &Legs{Prefill: overrides(cfg, d, first), Decode: overrides(cfg, d, second)}, true
	case prefill != cacheAware && decode != cacheAware:
		return &Legs{Prefill: first, Decode: second}, true
	}
	c := NewCacheAware(cfg)
	c.otherPrefill, c.otherDecode = first, second
	if cfg.Override {
		c.keyed = [2]*Manual{overrides(cfg, d, cmp.Or[Picker](first, own{c, workers.Prefill})), overrides(cfg, d, cmp.Or[Picker](second, own{c, workers.Decode}))}
	}
	return c, true
}

// leg returns the policy for one leg: nil for what CacheAware does itself.
func leg(name string, cfg Config, d *dice) (Picker, bool) {
	if name == cacheAware {
		return nil, true
	}
	if build, ok := pickers()[name]; ok {
		return build(cfg, d), true
	}
	return nil, false
}

// Lookup returns the policy of that name for both legs, as it is by default.
func Lookup(name string) (workers.Chooser, bool) { return New(name, name, DefaultConfig()) }
