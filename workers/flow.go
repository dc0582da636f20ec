package workers

import (
	"math"
	"time"
)

// A flow knows how fast the requests of a queue go, to say when to come again.
type flow struct {
	second  int64 // the current one
	granted [flowSeconds]int32

	pressed  bool          // more wait than half of what may
	at       time.Time     // since when, or since when not
	pressure time.Duration // for how long they did, less for how long they did not
}

const (
	// flowSeconds is how many seconds are looked back.
	flowSeconds = 10

	// mostRetryAfter bounds what clients are told, in seconds. So does
	// leastRetryAfter.
	mostRetryAfter  = 60
	leastRetryAfter = 1

	// patienceGrows is by how many seconds a client is told to stay away for
	// each second of pressure: an overload that lasts for some seconds will last
	// for more, and whoever comes again during it finds the queue full again.
	patienceGrows = 20

	// mostPressure is what bounds it, so that it is over soon after the overload.
	// So does mostNoted, for the time between two looks at the queue.
	mostPressure = mostRetryAfter * time.Second / patienceGrows
	mostNoted    = time.Second
)

// grant counts a request that goes.
func (f *flow) grant(now time.Time) {
	f.turn(now)
	f.granted[f.second%flowSeconds]++
}

// turn makes the second of now the current one.
func (f *flow) turn(now time.Time) {
	s := now.Unix()
	for n := min(s-f.second, flowSeconds); n > 0; n-- {
		f.granted[(s-n+1)%flowSeconds] = 0
	}
	f.second = max(f.second, s)
}

// press notes whether more wait than half of what may.
func (f *flow) press(now time.Time, pressed bool) {
	if d := now.Sub(f.at); f.pressed {
		f.pressure = min(f.pressure+min(d, mostNoted), mostPressure)
	} else {
		f.pressure = max(f.pressure-d, 0)
	}
	f.at, f.pressed = now, pressed
}

// retryAfter returns when a request that finds so many waiting should come
// again.
func (f *flow) retryAfter(now time.Time, waiting int) time.Duration {
	f.turn(now)
	went := int32(0)
	for _, n := range f.granted {
		went += n
	}
	seconds := float64(waiting+1) * flowSeconds / float64(max(went, 1))
	seconds += patienceGrows * f.pressure.Seconds()
	return time.Duration(math.Ceil(min(max(seconds, leastRetryAfter), mostRetryAfter))) * time.Second
}
