package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A witnessed is a histogram that names a request as witness for each bucket,
// its exemplar. To note one takes ten allocations and a lock, so it is done once
// a second for each bucket: in a bucket that is seldom reached, where they are
// looked for, the last one is always there.
type witnessed struct {
	to     prometheus.Observer
	bounds []float64
	noted  []atomic.Int64 // by bucket, when last, in Unix seconds
}

func witness(to prometheus.Observer, bounds []float64) *witnessed {
	return &witnessed{to: to, bounds: bounds, noted: make([]atomic.Int64, len(bounds)+1)}
}

// exemplarLabel names the request, and maxWitness is how long that name may be:
// OpenMetrics allows 128 characters for all labels of an exemplar with their
// names. A longer one is left out: cut off, nobody would find it.
const (
	exemplarLabel = "request_id"
	maxWitness    = prometheus.ExemplarMaxRunes - len(exemplarLabel)
)

// observe counts what took d and ended now, in the request with that id, which
// is printable ASCII or empty.
func (w *witnessed) observe(now time.Time, d time.Duration, id string) {
	v := d.Seconds()
	if id == "" || len(id) > maxWitness {
		w.to.Observe(v)
		return
	}
	bucket := 0
	for bucket < len(w.bounds) && v > w.bounds[bucket] {
		bucket++
	}
	noted, second := &w.noted[bucket], now.Unix()
	before := noted.Load()
	x, ok := w.to.(prometheus.ExemplarObserver)
	if !ok || before == second || !noted.CompareAndSwap(before, second) {
		w.to.Observe(v)
		return
	}
	x.ObserveWithExemplar(v, prometheus.Labels{exemplarLabel: id})
}
