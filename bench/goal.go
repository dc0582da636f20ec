package bench

import "time"

// A Goal is what a replay is to come to. A figure of 0 says nothing.
type Goal struct {
	Hit, Mean, Imbalance float64 // hit ratio, mean TTFT in seconds

	Within    float64 // share of them by which a figure may be worse
	Published bool    // by others: it may not be better by more than that either
}

// usual is by which share a goal that was set may be missed.
const usual = 0.02

// aim is a goal that was set.
func aim(hit, mean, imbalance float64) Goal { return Goal{hit, mean, imbalance, usual, false} }

// known is what others have published.
func known(hit, mean, imbalance, within float64) Goal {
	return Goal{hit, mean, imbalance, within, true}
}

// Missed returns the names of the figures that are not as they are to be.
func (g Goal) Missed(r Row) []string {
	var missed []string
	for _, f := range []struct {
		name      string
		got, want float64
		more      bool // is better
	}{
		{"hit", r.HitRatio, g.Hit, true}, {"TTFT", r.TTFTMean, g.Mean, false}, {"imbalance", r.Imbalance, g.Imbalance, false},
	} {
		low, high := f.want*(1-g.Within), f.want*(1+g.Within)
		tooLow := f.got < low && (f.more || g.Published)
		tooHigh := f.got > high && (!f.more || g.Published)
		if f.want > 0 && (tooLow || tooHigh) {
			missed = append(missed, f.name)
		}
	}
	return missed
}

// A Case is a policy in front of a fleet, with what it is to come to with each
// of Mooncake's two traces.
type Case struct {
	Title                   string
	Policy                  string
	Fleet                   Virtual
	Conversation, Synthetic Goal
}

// Published returns the fleet of the published figures: 8 workers, at 1.5 times
// the trace's speed.
func Published() Virtual { return Virtual{Workers: 8, Speed: 1.5, Engine: DefaultEngine()} }

// Cases returns the figures that others have published, which say that the
// model is right, and the goals that were set.
func Cases() []Case {
	small, few := Published(), Published()
	small.Engine.KVTokens, few.Workers, few.Speed = 1_000_000, 4, 0.75
	return []Case{
		{"round robin", "ref_round_robin", Published(), known(0.113, 3.46, 1.04, 0.02), known(0.194, 12.1, 0, 0.02)},
		{"SGLang-style cache_aware", "ref_sglang", Published(), known(0.330, 2.22, 1.05, 0.03), known(0.640, 0.78, 0, 0.03)},
		{"llm-d-like 3:2", "ref_llm_d", Published(), known(0.345, 1.13, 1.04, 0.03), known(0.640, 0.74, 0, 0.03)},
		{"least expected TTFT", "ref_ttft", Published(), known(0.306, 1.06, 1.02, 0.02), known(0.619, 0.71, 0, 0.02)},
		{"same, own prefill weighted 2", "ref_ttft_own2", Published(), known(0.328, 1.04, 1.02, 0.02), known(0.633, 0.72, 0, 0.02)},
		{"ours, dispatched at once", AtOnce, Published(), aim(0.33, 1.05, 1.05), aim(0.63, 0.72, 0)},
		{"ours, bound late", "cache_aware", Published(), aim(0.335, 0.95, 1.05), aim(0.625, 0.72, 0)},
		{"at once, 1 M tokens of KV", AtOnce, small, aim(0, 1.22, 0), aim(0, 0.98, 0)},
		{"bound late, 1 M tokens of KV", "cache_aware", small, aim(0, 1.22, 0), aim(0, 0.98, 0)},
		{"at once, 4 workers at 0.75x", AtOnce, few, aim(0, 1.68, 0), aim(0, 0.92, 0)},
		{"bound late, 4 workers at 0.75x", "cache_aware", few, aim(0, 1.68, 0), aim(0, 0.92, 0)},
	}
}

// StaleGoal is that of a replay with reports that are five seconds old, beside
// base, which is one without: the mean TTFT gets worse by less than a tenth.
func StaleGoal(base Row) Goal { return Goal{Mean: 1.1 * base.TTFTMean} }

// Stale is the age of those reports.
const Stale = 5 * time.Second

// RecoveryGoal is that of a Recovery beside calm, which is one in which nothing
// happened: a hit ratio that is as good but for a tenth, and an even load.
func RecoveryGoal(calm Row) Goal {
	return Goal{Hit: 0.9 * calm.HitRatio, Imbalance: 1.3}
}
