package policy

import (
	"slices"
	"time"

	"pdrouter/workers"
)

// Bucket gives each worker the prompts of a range of lengths, so that a short
// one does not wait behind long ones. The ranges are set anew, from prompts of
// late, so that each has the same work. A worker that has much more under way
// than another is passed over for the least loaded.
type Bucket struct {
	cfg    Config
	recent [bucketMemory]int32 // lengths, in bytes; a ring
	seen   int
	edges  []int32 // the longest of each range but the last
	sorted []int32 // scratch
	set    time.Time
}

// bucketMemory is how many prompts the ranges are made from.
const bucketMemory = 512

// Pick implements Picker.
func (p *Bucket) Pick(need *workers.Need, loads []*workers.Load, in partners) int {
	p.see(need, len(loads))
	least, most := -1, 0
	for i, l := range loads {
		if in.have(i) {
			if least < 0 || lighter(l, loads[least]) {
				least = i
			}
			most = max(most, l.InFlight)
		}
	}
	fewest := loads[least].InFlight
	if most-fewest > p.cfg.BalanceAbs && float64(most) > p.cfg.BalanceRel*float64(fewest) {
		return least
	}
	n := in.count(len(loads))
	number, _ := slices.BinarySearch(p.edges, int32(min(need.Prompt.Bytes, 1<<30)))
	return in.nth(min(number*n/max(len(p.edges)+1, 1), n-1))
}

// see notes a prompt's length, and sets the ranges anew if it is time.
func (p *Bucket) see(need *workers.Need, ranges int) {
	p.recent[p.seen%bucketMemory] = int32(min(need.Prompt.Bytes, 1<<30))
	p.seen++
	if len(p.edges) == ranges-1 && need.At.Sub(p.set) < p.cfg.AdjustBuckets {
		return
	}
	p.set = need.At
	p.sorted = append(p.sorted[:0], p.recent[:min(p.seen, bucketMemory)]...)
	slices.Sort(p.sorted)
	sum, part := int64(0), int64(0)
	for _, length := range p.sorted {
		sum += int64(length)
	}
	p.edges = p.edges[:0]
	for _, length := range p.sorted {
		part += int64(length)
		for len(p.edges) < ranges-1 && part*int64(ranges) >= sum*int64(len(p.edges)+1) {
			p.edges = append(p.edges, length)
		}
	}
}
