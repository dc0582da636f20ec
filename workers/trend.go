package workers

import "math"

// trendSeconds is over how long a trend is taken.
const trendSeconds = 30

// A trend is which way an amount goes. It follows behind by trendSeconds, so
// that the distance between the two is the slope.
type trend struct {
	behind float64
	at     float64
	value  float64
	begun  bool
}

// mark notes what the amount is now.
func (t *trend) mark(now, value float64) {
	if !t.begun {
		*t = trend{value, now, value, true}
		return
	}
	if now > t.at {
		t.behind += (t.value - t.behind) * (1 - math.Exp((t.at-now)/trendSeconds))
	}
	t.at, t.value = now, value
}

// until returns in how many seconds the amount comes to full; +Inf if it does
// not rise.
func (t *trend) until(full float64) float64 {
	slope := (t.value - t.behind) / trendSeconds
	if slope <= full*1e-5 {
		return math.Inf(1)
	}
	return max(full-t.value, 0) / slope
}
