package workers

import "math"

// A trend is taken over both of these, in seconds.
const (
	trendLong  = 20
	trendShort = 4
)

// A trend is which way an amount goes. Two averages follow it, by so many
// seconds behind, and the distance to either is a slope. The lesser of the two
// counts: what was a jump does not show over a long time, and what has come to
// its end does not over a short one.
type trend struct {
	long, short float64
	at          float64
	value       float64
	begun       bool
}

// mark notes what the amount is now.
func (t *trend) mark(now, value float64) {
	if !t.begun {
		*t = trend{value, value, now, value, true}
		return
	}
	if passed := now - t.at; passed > 0 {
		t.long += (t.value - t.long) * (1 - math.Exp(-passed/trendLong))
		t.short += (t.value - t.short) * (1 - math.Exp(-passed/trendShort))
	}
	t.at, t.value = now, value
}

// until returns in how many seconds the amount comes to full; +Inf if it does
// not rise.
func (t *trend) until(full float64) float64 {
	slope := min((t.value-t.long)/trendLong, (t.value-t.short)/trendShort)
	if slope <= full*1e-4 {
		return math.Inf(1)
	}
	return max(full-t.value, 0) / slope
}
