package metrics

import "github.com/prometheus/client_golang/prometheus"

// PolicyBranches are how many choices for a leg fell so, of the policies that are
// in use; the others are nil, and have no series.
type PolicyBranches struct {
	ConsistentHashing *ConsistentBranches
	PrefixHash        *PrefixBranches
	Manual            *ManualBranches
}

// ConsistentBranches are those of consistent_hashing.
type ConsistentBranches struct{ RoutingKeyHit, RandomFallback uint64 }

// PrefixBranches are those of prefix_hash.
type PrefixBranches struct{ RingHit, LoadBalanceWalk, NoRoutingKey uint64 }

// ManualBranches are those of manual, which also serves --routing-key-override.
type ManualBranches struct {
	OccupiedHit, OccupiedMiss, Vacant, NoRoutingID uint64

	Entries int64 // keys that are remembered
}

// WatchBranches registers what is told of choices, read with look at scrape.
func WatchBranches(reg prometheus.Registerer, look func() PolicyBranches) {
	branches := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("smg_"+name+"_policy_branch_total", help, []string{"branch"}, nil)
	}
	reg.MustRegister(&branchCollector{
		look:       look,
		consistent: branches("consistent_hashing", "Choices of consistent_hashing, of each leg: routing_key_hit (by the hash of a routing key, session or prompt), random_fallback (nothing to hash: the least loaded worker, not a random one)."),
		prefix:     branches("prefix_hash", "Choices of prefix_hash, of each leg: ring_hit (the worker whose prompt it is), load_balance_walk (that has too much to do, and the next one is taken), no_routing_key (no beginning to hash: the least loaded worker)."),
		manual:     branches("manual", "Choices of manual, of each leg: occupied_hit (where the key is remembered), occupied_miss (that worker cannot be leased: another one, which is remembered), vacant (a new key), no_routing_id (none)."),
		entries:    prometheus.NewDesc("smg_manual_policy_cache_entries", "Routing keys that manual remembers, those of either leg.", nil, nil),
	})
}

type branchCollector struct {
	look func() PolicyBranches

	consistent, prefix, manual, entries *prometheus.Desc
}

// Describe implements prometheus.Collector. It describes nothing: what there is
// depends on the policies in use.
func (c *branchCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *branchCollector) Collect(out chan<- prometheus.Metric) {
	all := c.look()
	if b := all.ConsistentHashing; b != nil {
		out <- count(c.consistent, b.RoutingKeyHit, "routing_key_hit")
		out <- count(c.consistent, b.RandomFallback, "random_fallback")
	}
	if b := all.PrefixHash; b != nil {
		out <- count(c.prefix, b.RingHit, "ring_hit")
		out <- count(c.prefix, b.LoadBalanceWalk, "load_balance_walk")
		out <- count(c.prefix, b.NoRoutingKey, "no_routing_key")
	}
	if b := all.Manual; b != nil {
		out <- count(c.manual, b.OccupiedHit, "occupied_hit")
		out <- count(c.manual, b.OccupiedMiss, "occupied_miss")
		out <- count(c.manual, b.Vacant, "vacant")
		out <- count(c.manual, b.NoRoutingID, "no_routing_id")
		out <- gauge(c.entries, float64(b.Entries))
	}
}
