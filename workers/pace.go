package workers

import "math"

// A Pace is how fast an engine worked between its last two reports. What cannot
// be told is NaN: there were no two, the engine does not tell, has been started
// again, or did nothing of the kind.
type Pace struct {
	Generating  float64 // tokens generated per second
	HandOff     float64 // seconds that one hand-off took, on average
	Transferred float64 // bytes per second of hand-offs
}

func noPace() Pace { return Pace{math.NaN(), math.NaN(), math.NaN()} }

// paceOf returns the pace between two reports of one engine.
func paceOf(before, now *Report) Pace {
	if before.At.IsZero() {
		return noPace()
	}
	rise := func(total func(*Report) float64) float64 {
		if d := total(now) - total(before); d >= 0 {
			return d
		}
		return math.NaN()
	}
	seconds := rise(func(r *Report) float64 { return r.TransferSeconds })
	return Pace{
		Generating:  per(rise(func(r *Report) float64 { return r.GeneratedTokens }), now.At.Sub(before.At).Seconds()),
		HandOff:     per(seconds, rise(func(r *Report) float64 { return r.Transfers })),
		Transferred: per(rise(func(r *Report) float64 { return r.TransferBytes }), seconds),
	}
}

// per returns a / b, NaN if b is nothing.
func per(a, b float64) float64 {
	if !(b > 0) {
		return math.NaN()
	}
	return a / b
}
