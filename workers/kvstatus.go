package workers

import (
	"math"
	"time"
)

// KV is what is known of a worker's KV cache at one moment, in tokens. All is
// NaN if the engine does not tell enough.
type KV struct {
	Capacity float64
	Used     float64 // now, as well as we can tell
	Reserved float64 // the most that our own leases are expected to need
	Free     float64 // what may be granted still; below 0: more is out than should be

	// Drift is by what share of the capacity the last report was above what we
	// knew of. Requests of others are part of it.
	Drift float64

	Age         time.Duration // of the last report
	SecondsFull float64       // until it is full if it goes on like this; +Inf: it does not fill
}

// status returns what is known now.
func (l *ledger) status(now time.Time) KV {
	if !l.known() {
		nan := math.NaN()
		return KV{Capacity: nan, Used: nan, Reserved: nan, Free: nan, Drift: nan, SecondsFull: nan}
	}
	l.mark(l.advance(now)) // the outlook stays, and may be as old as the last report: to look takes long
	_, all := l.needs(&l.outlook, l.seen())
	return KV{
		Capacity:    l.capacity,
		Used:        l.usedNow(),
		Reserved:    l.outlook.peak(0),
		Free:        l.capacity - all,
		Drift:       l.others.held / l.capacity,
		Age:         time.Duration((l.now - l.reported) * float64(time.Second)),
		SecondsFull: l.trend.until(l.capacity),
	}
}
