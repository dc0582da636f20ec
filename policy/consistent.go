package policy

import "pdrouter/workers"

// ConsistentHashing sends requests with the same routing key or session to the
// same worker, as long as that has no more than LoadFactor times the average
// load. A request without a key goes by its prompt, one without a prompt to
// hash by its user, else to the least loaded worker: never by its API key or
// address, which all requests of one application share.
type ConsistentHashing struct {
	factor   float64
	branches *Branches
}

// Pick implements Picker.
func (p ConsistentHashing) Pick(need *workers.Need, loads []*workers.Load, in partners) int {
	key := need.Sticky
	if !need.Named && need.Key != 0 {
		key = need.Key
	}
	if key == 0 {
		p.branches.count(WithoutKey)
	} else {
		p.branches.count(ByKey)
	}
	return bounded{factor: p.factor}.rendezvous(key, loads, in)
}
