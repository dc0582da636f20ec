package policy

import "pdrouter/workers"

// PowerOfTwo takes two workers at random, and of these the one with less to
// do. What is compared is Config.Metric: expected_wait, which is least_load's;
// requests, which is KV use if both workers tell it, else requests under way;
// or least_requests, which is requests under way.
type PowerOfTwo struct {
	cfg  Config
	dice *dice
}

// Pick implements Picker.
func (p PowerOfTwo) Pick(_ *workers.Need, loads []*workers.Load, in partners) int {
	n := in.count(len(loads))
	if n == 1 {
		return in.nth(0)
	}
	first, second := p.dice.below(n), p.dice.below(n-1)
	if second >= first {
		second++
	}
	a, b := in.nth(first), in.nth(second)
	if p.less(loads[b], loads[a]) {
		return b
	}
	return a
}

func (p PowerOfTwo) less(a, b *workers.Load) bool {
	switch p.cfg.Metric {
	case "expected_wait":
		wait := LeastLoad{p.cfg}
		if x, y := wait.cost(a), wait.cost(b); x != y {
			return x < y
		}
	case "requests":
		if x, y := kvUse(a, 0), kvUse(b, 0); x >= 0 && y >= 0 && x != y {
			return x < y
		}
	}
	return lighter(a, b)
}
