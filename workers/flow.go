package workers

import (
	"math"
	"time"
)

// A flow knows how fast requests come and go, to say when to come again.
type flow struct {
	second  int64 // the current one
	granted [flowSeconds]int32
	pressed time.Time // since when more wait than half of what may; zero: they do not
}

const (
	// flowSeconds is how many seconds are looked back.
	flowSeconds = 10

	// mostRetryAfter bounds what clients are told, in seconds. So does
	// leastRetryAfter.
	mostRetryAfter  = 60
	leastRetryAfter = 1

	// patienceGrows is by how many seconds a client is told to stay away for
	// each second that too many have come already: an overload that lasts for
	// some seconds will last for more, and whoever comes again during it finds
	// the queue full again.
	patienceGrows = 12
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
	switch {
	case !pressed:
		f.pressed = time.Time{}
	case f.pressed.IsZero():
		f.pressed = now
	}
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
	if !f.pressed.IsZero() {
		seconds += patienceGrows * now.Sub(f.pressed).Seconds()
	}
	return time.Duration(math.Ceil(min(max(seconds, leastRetryAfter), mostRetryAfter))) * time.Second
}
