package policy

import (
	"cmp"
	"math"

	"pdrouter/workers"
)

// What an explanation says of choices by cache_aware, and in what it compares.
const (
	leastCost  = "least cost: wait and weighted work"
	evenLoad   = "least load, KV use and blocks to pull"
	mostSpace  = "most KV space, chosen first: it is short"
	routingKey = "routing key"

	inSeconds = "seconds"           // prefill: the wait, and the work times 1.5 to 3
	inLoads   = "mean loads"        // decode: 1 is the load of the average worker
	inShares  = "share of KV space" // decode, where that is short
)

// candidate returns what an explanation says of an offer.
func (o *offer) candidate(l *workers.Load) workers.Candidate {
	return workers.Candidate{Worker: l.Worker, InFlight: l.InFlight, Blocks: o.blocks, Wait: o.wait, Work: o.work, Cost: o.cost.Seconds()}
}

// plain returns what there is to say of a worker that was not compared by a
// number.
func plain(l *workers.Load) workers.Candidate {
	return workers.Candidate{Worker: l.Worker, InFlight: l.InFlight, Blocks: -1, Cost: math.NaN()}
}

// leaveOut explains that a worker could not be chosen.
func leaveOut(x *workers.Explanation, l *workers.Load, why string) {
	if x != nil {
		c := plain(l)
		c.LeftOut = why
		x.Add(&c)
	}
}

// begin explains what a worker of a role is chosen by.
func begin(x *workers.Explanation, role workers.Role, reason, unit string) {
	if x == nil {
		return
	}
	x.Units[role] = unit
	if role == workers.Prefill {
		x.Reason = cmp.Or(x.Reason, reason)
	} else {
		x.DecodeReason = cmp.Or(x.DecodeReason, reason)
	}
}

// pick lets p choose, and explains it.
func pick(p Picker, role workers.Role, need *workers.Need, loads []*workers.Load, in partners) int {
	x := need.Explain
	reason := why(p, need) // before p remembers that it has seen the request
	at := p.Pick(need, loads, in)
	if x == nil {
		return at
	}
	least, compares := p.(LeastLoad)
	unit := ""
	if compares {
		unit = inSeconds
	}
	if x.Has(role) { // it was cache_aware itself that chose
		begin(x, role, reason, x.Units[role])
		return at
	}
	begin(x, role, reason, unit)
	for i, l := range loads {
		c := plain(l)
		if !in.have(i) {
			c.LeftOut = workers.LeftNoRoom
		} else if compares {
			c.Cost = least.cost(l)
		}
		x.Add(&c)
	}
	c := plain(loads[at])
	if compares {
		c.Cost = least.cost(loads[at])
	}
	x.Keep(&c)
	return at
}

// why returns by what p chooses a worker for need; empty: it says so itself.
func why(p Picker, need *workers.Need) string {
	switch p := p.(type) {
	case *Manual:
		if need.Named && need.Sticky != 0 {
			return routingKey
		}
		return why(p.rest, need)
	case RoundRobin:
		return "round robin"
	case Random:
		return "random"
	case PowerOfTwo:
		return "the less loaded of two at random"
	case LeastLoad:
		return "least load"
	case PrefixHash:
		return "hash of how the prompt begins, within the load bound"
	case ConsistentHashing:
		return "hash of the routing key, within the load bound"
	case *Bucket:
		return "range of prompt lengths"
	case First:
		return "the first"
	default:
		return ""
	}
}
