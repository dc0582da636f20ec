package bench

import (
	"math"
	"time"
)

// Buckets of a Spread grow by spreadStep from one to the next, the first one
// ending at one microsecond. The last one begins at about an hour.
const (
	spreadStep    = 1.02
	spreadBuckets = 1120
)

// A Spread is how a duration is distributed: quantiles to within 1 %, in
// memory that does not grow. The zero value is empty.
type Spread struct {
	buckets [spreadBuckets]uint32
	count   int
	sum     time.Duration
}

// Add counts d.
func (s *Spread) Add(d time.Duration) {
	i := 0
	if us := float64(d) / float64(time.Microsecond); us > 1 {
		i = min(int(math.Log(us)/math.Log(spreadStep))+1, spreadBuckets-1)
	}
	s.buckets[i]++
	s.count++
	s.sum += d
}

// Count returns how many durations were added.
func (s *Spread) Count() int { return s.count }

// Mean returns the mean of those added, exactly; 0 if there are none.
func (s *Spread) Mean() time.Duration { return s.sum / time.Duration(max(s.count, 1)) }

// Quantile returns the duration that a share q of those added is not above; 0
// if there are none.
func (s *Spread) Quantile(q float64) time.Duration {
	rank := max(int(math.Ceil(q*float64(s.count))), 1)
	for i, n := range s.buckets {
		if rank -= int(n); rank <= 0 {
			middle := math.Pow(spreadStep, float64(i)-0.5)
			return time.Duration(middle * float64(time.Microsecond))
		}
	}
	return 0
}
