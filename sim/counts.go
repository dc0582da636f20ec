package sim

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// bytesPerKVToken is how much KV a token has: that of the model which the
// captures were made with (2 tensors, 30 layers, 3 heads of 64, 2 bytes each).
const bytesPerKVToken = 23040

// count counts a leg that has ended.
func (e *Engine) count(l *leg, err error) {
	n := &e.counts
	if err != nil {
		n.failed.Add(1)
		return
	}
	streamed := 0
	if l.r.stream {
		streamed = 1
	}
	by := &n.streamed[streamed]
	by.requests.Add(1)
	by.prompt.Add(uint64(l.q.promptTokens))
	by.generated.Add(uint64(l.count))
	n.cached.Add(uint64(l.cached))
	switch l.reason {
	case "stop":
		n.stopped.Add(1)
	case "abort":
		n.aborted.Add(1)
	default:
		n.reached.Add(1)
	}
	by.firstToken.observe(sinceStart(l.received, l.first).Seconds())
	n.queue.observe(sinceStart(l.received, l.admitted).Seconds())
	by.whole.observe(sinceStart(l.received, l.finished).Seconds())
	n.promptLength.observe(float64(l.q.promptTokens))
	n.answerLength.observe(float64(l.count))
}

// countTransfer counts a hand-off of tokens that took d.
func (n *counts) countTransfer(tokens int, d time.Duration) {
	n.transfers.Add(1)
	n.transferTime.observe(d.Seconds())
	n.transferVolume.observe(float64(tokens * bytesPerKVToken))
}

// setBounds gives the histograms the buckets that the real engines have.
func (n *counts) setBounds(dialect string) {
	lengths := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
	n.promptLength.setBounds(lengths)
	n.answerLength.setBounds(lengths)
	n.transferTime.setBounds([]float64{.005, .01, .025, .05, .075, .1, .2, .3, .5, .75, 1, 5})
	volumes := make([]float64, 0, 12)
	for v := 2048.0; len(volumes) < cap(volumes); v *= 4 {
		volumes = append(volumes, v)
	}
	n.transferVolume.setBounds(volumes)
	whole := []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	first := []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	if dialect == SGLang {
		first = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
		whole = append(slices.Clip(first), 600, 1200, 1800, 2400)
	}
	for i := range n.streamed {
		n.streamed[i].firstToken.setBounds(first)
		n.streamed[i].whole.setBounds(whole)
	}
	n.queue.setBounds(whole)
}

// A histogram counts values by buckets, as Prometheus does.
type histogram struct {
	bounds  []float64
	buckets []atomic.Uint64 // one more than bounds
	sum     atomic.Uint64   // of the values, as the bits of a float64
}

func (h *histogram) setBounds(bounds []float64) {
	h.bounds, h.buckets = bounds, make([]atomic.Uint64, len(bounds)+1)
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	for {
		bits := h.sum.Load()
		if h.sum.CompareAndSwap(bits, math.Float64bits(math.Float64frombits(bits)+v)) {
			return
		}
	}
}

// total returns the sum of the values.
func (h *histogram) total() float64 { return math.Float64frombits(h.sum.Load()) }

// plus returns a copy of h with what another one of its kind has counted.
func (h *histogram) plus(o *histogram) *histogram {
	sum := &histogram{}
	sum.setBounds(h.bounds)
	for i := range sum.buckets {
		sum.buckets[i].Store(h.buckets[i].Load() + o.buckets[i].Load())
	}
	sum.sum.Store(math.Float64bits(h.total() + o.total()))
	return sum
}

// times returns a copy of h in a unit that is smaller by a factor.
func (h *histogram) times(factor float64) *histogram {
	scaled := &histogram{bounds: make([]float64, len(h.bounds)), buckets: make([]atomic.Uint64, len(h.buckets))}
	for i, b := range h.bounds {
		scaled.bounds[i] = b * factor
	}
	for i := range h.buckets {
		scaled.buckets[i].Store(h.buckets[i].Load())
	}
	scaled.sum.Store(math.Float64bits(h.total() * factor))
	return scaled
}

// sinceStart keeps a duration that has no end yet at zero.
func sinceStart(from, to time.Time) time.Duration {
	if to.IsZero() || from.IsZero() {
		return 0
	}
	return to.Sub(from)
}
