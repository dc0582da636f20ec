package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pdrouter/policy"
)

// legPolicies returns the names of the policies for the two legs.
func (c Config) legPolicies() (prefill, decode string) {
	return cmp.Or(c.PrefillPolicy, c.Policy), cmp.Or(c.DecodePolicy, c.Policy)
}

// routingSettings are the policies, and what each of them lets be set.
func (in *intake) routingSettings() []setting {
	c, p := &in.cfg, &in.cfg.Choosing
	names := policy.Names()
	metrics, modes := []string{"expected_wait", "requests", "least_requests"}, []string{"random", "min_load", "min_group", "delegate"}
	return slices.Concat([]setting{
		{name: "policy", value: newChoice(&c.Policy, names), choices: names, usage: "how a pair is chosen; docs/policies.md tells what each does"},
		{name: "prefill-policy", value: newChoice(&c.PrefillPolicy, names), choices: names, usage: "the policy of the prefill leg, where it is another"},
		{name: "decode-policy", value: newChoice(&c.DecodePolicy, names), choices: names, usage: "the policy of the decode leg, where it is another"},
		{name: "routing-key-override", value: newSwitch(&p.Override), usage: "a request with a routing key goes where manual remembers that key, whatever the policy"},
		{name: "sticky-sessions", value: newSwitch(&p.Override), hint: true, usage: "the same as --routing-key-override"},
	}, ofPolicies(
		[]string{"cache_aware"},
		setting{name: "max-index-blocks", value: newWhole(&p.MaxBlocks), usage: "cache_aware: most blocks of prompt in the prefix index, of 512 bytes or as long as the engines', for all workers; each takes 27 bytes at most; 0: none is noted, prompts go where there is least to do"},
		setting{name: "prefill-hold", value: newHold(&p.Hold), usage: "cache_aware: how long a request may be kept for a worker that is about to be free, such as 4s; off: it is sent at once"},
	), ofPolicies(
		[]string{"prefix_hash", "consistent_hashing"},
		setting{name: "prefix-hash-load-factor", value: newNumber(&p.LoadFactor), usage: "prefix_hash, consistent_hashing: most load of a worker for the sake of affinity, as a multiple of the average"},
	), ofPolicies(
		[]string{"prefix_hash"},
		setting{name: "prefix-hash-balance-abs-threshold", value: newWhole(&p.BalanceBelow), usage: "prefix_hash: requests under way up to which that bound does not hold"},
	), ofPolicies(
		[]string{"least_load", "power_of_two"},
		setting{name: "least-load-kv-pressure-weight", value: newNumber(&p.KVWeight), usage: "least_load, power_of_two: weight of KV usage against waiting"},
		setting{name: "least-load-default-throughput", value: newNumber(&p.Throughput), usage: "least_load, power_of_two: tokens per second of a worker"},
		setting{name: "least-load-mean-prefill-tokens", value: newNumber(&p.PromptTokens), usage: "least_load, power_of_two: tokens of a prompt"},
	), ofPolicies(
		[]string{"least_load"},
		setting{name: "least-load-max-waiting-requests", value: newWhole(&p.MaxWaiting), usage: "least_load: requests waiting in an engine from which it is passed over; 0: never"},
	), ofPolicies(
		[]string{"power_of_two"},
		setting{name: "power-of-two-load-metric", value: newChoice(&p.Metric, metrics), choices: metrics, usage: "power_of_two: what is compared: expected_wait, requests (KV usage where engines tell it) or least_requests"},
	), ofPolicies(
		[]string{"bucket"},
		setting{name: "bucket-adjust-interval-secs", value: newSeconds(&p.AdjustBuckets), usage: "bucket: seconds from one setting of the ranges to the next"},
		setting{name: "balance-abs-threshold", value: newWhole(&p.BalanceAbs), usage: "bucket: gap of requests under way above which the least loaded worker is taken, if the ratio is above its threshold too"},
		setting{name: "spill-abs-threshold", value: newWhole(&p.BalanceAbs), hint: true, usage: "the same as --balance-abs-threshold"},
		setting{name: "balance-rel-threshold", value: newNumber(&p.BalanceRel), usage: "bucket: that ratio"},
		setting{name: "spill-rel-threshold", value: newNumber(&p.BalanceRel), hint: true, usage: "the same as --balance-rel-threshold"},
	), ofPolicies(
		[]string{"manual"},
		setting{name: "max-idle-secs", value: newSeconds(&p.MaxIdle), usage: "manual: seconds for which a routing key that is not used is remembered"},
		setting{name: "sticky-key-idle-secs", value: newSeconds(&p.MaxIdle), hint: true, usage: "the same as --max-idle-secs"},
		setting{name: "assignment-mode", value: newChoice(&p.Assignment, modes), choices: modes, usage: "manual: where a new key goes: random, min_load, min_group (the fewest keys) or delegate (with --routing-key-override: where the policy would send it)"},
	))
}

// ofPolicies returns settings that are read by the policies of these names only.
func ofPolicies(names []string, settings ...setting) []setting {
	for i := range settings {
		settings[i].policies = names
	}
	return settings
}

// unread returns what to say of s if no policy in use reads it; else nothing.
func (s *setting) unread(c Config) string {
	prefill, decode := c.legPolicies()
	if len(s.policies) == 0 || c.Choosing.Override && slices.Contains(s.policies, "manual") || slices.Contains(s.policies, prefill) || slices.Contains(s.policies, decode) {
		return ""
	}
	inUse := prefill
	if decode != prefill {
		inUse += " and " + decode
	}
	return fmt.Sprintf("accepted, not needed: it is for %s only; in use: %s", strings.Join(s.policies, " or "), inUse)
}

// newHold is a time with its unit, or off for none.
func newHold(dst *time.Duration) value {
	return &scalar[time.Duration]{dst: dst, word: "duration", parse: parseHold, show: func(d time.Duration) any {
		if d == 0 {
			return "off"
		}
		return d.String()
	}}
}

func parseHold(text string) (time.Duration, error) {
	if text == "off" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("neither off nor a time such as 500ms or 4s")
	}
	return d, nil
}
