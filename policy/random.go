package policy

import "pdrouter/workers"

// Random takes any worker.
type Random struct{ dice *dice }

// Pick implements Picker.
func (r Random) Pick(_ *workers.Need, loads []*workers.Load, in partners) int {
	return in.nth(r.dice.below(in.count(len(loads))))
}

// dice are random numbers that are the same for the same seed (splitmix64).
// They are used under the registry's lock.
type dice struct{ state uint64 }

// below returns a number from 0 to n-1.
func (d *dice) below(n int) int {
	d.state += 0x9e3779b97f4a7c15
	return int(scatter(d.state) >> 33 * uint64(n) >> 31)
}

// scatter is splitmix64's finaliser.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
