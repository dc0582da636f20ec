package policy

import "pdrouter/workers"

// RoundRobin takes the workers in turn: the one leased least recently.
type RoundRobin struct{}

// Pick implements Picker.
func (RoundRobin) Pick(_ *workers.Need, loads []*workers.Load, in partners) int {
	best := -1
	for i, l := range loads {
		if in.have(i) && (best < 0 || l.Picked < loads[best].Picked) {
			best = i
		}
	}
	return best
}
