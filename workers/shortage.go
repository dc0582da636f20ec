package workers

import (
	"slices"
	"time"
)

// A Shortage is what a request waits for.
type Shortage uint8

// The shortages.
const (
	OfSlots   Shortage = iota // as many requests are under way as may be, or begun as may be in a second
	OfPrefill                 // the prefill workers have enough to do
	OfDecode                  // no decode worker has room for it
	shortages
)

// String returns the shortage's name, as in metrics.
func (s Shortage) String() string { return [shortages]string{"slots", "prefill", "decode"}[s] }

// shortage returns what need lacks in pools, if anything.
func shortage(pools []Pool, need *Need) (short Shortage, is bool) {
	short = OfPrefill
	for i := range pools {
		p := &pools[i]
		if !slices.ContainsFunc(p.Prefill, func(l *Load) bool { return l.HasRoom(need) }) {
			continue
		}
		short = OfDecode
		if slices.ContainsFunc(p.Decode, func(l *Load) bool { return l.HasRoom(need) }) {
			return short, false
		}
	}
	return short, true
}

// barred returns what nobody can have because all who could give it are barred.
func barred(pools []Pool, now time.Time) Shortage {
	for i := range pools {
		if slices.ContainsFunc(pools[i].Prefill, func(l *Load) bool { return !l.Worker.barred.After(now) }) {
			return OfDecode
		}
	}
	return OfPrefill
}
