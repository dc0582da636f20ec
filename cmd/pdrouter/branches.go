package main

import (
	"slices"

	"pdrouter/metrics"
	"pdrouter/policy"
)

// policyBranches returns how choices fell, as metrics tell it, of the policies in
// use.
func (d *daemon) policyBranches() metrics.PolicyBranches {
	var all metrics.PolicyBranches
	c := d.current.Load()
	prefill, decode := c.legPolicies()
	b, of := c.Choosing.Branches, []string{prefill, decode}
	if slices.Contains(of, "consistent_hashing") {
		all.ConsistentHashing = &metrics.ConsistentBranches{RoutingKeyHit: b.Count(policy.ByKey), RandomFallback: b.Count(policy.WithoutKey)}
	}
	if slices.Contains(of, "prefix_hash") {
		all.PrefixHash = &metrics.PrefixBranches{RingHit: b.Count(policy.RingOwner), LoadBalanceWalk: b.Count(policy.LoadWalk), NoRoutingKey: b.Count(policy.WithoutPrompt)}
	}
	if slices.Contains(of, "manual") || c.Choosing.Override {
		all.Manual = &metrics.ManualBranches{
			OccupiedHit: b.Count(policy.KeyThere), OccupiedMiss: b.Count(policy.KeyMoved), Vacant: b.Count(policy.KeyNew), NoRoutingID: b.Count(policy.NoKey),
			Entries: b.Keys(),
		}
	}
	return all
}
