package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A latency times requests phase by phase, as their clients see them. Its bounds
// are not smg's, which hold for everything from a list of models to a session of
// hours: of its 29 two lie between 100 and 500 ms, where TTFT is promised, and
// four between 10 and 100 ms, where tokens come.
type latency struct {
	ttft    *prometheus.HistogramVec
	gaps    *prometheus.HistogramVec
	prefill *prometheus.HistogramVec
	handOff *prometheus.HistogramVec
	decode  *prometheus.HistogramVec
}

const (
	// nativeFactor is how much wider a native bucket is than the one below, at
	// the most.
	nativeFactor = 1.1

	// nativeMost bounds the memory of a native histogram: 8 buckets in each of 20
	// octaves, from nativeZero to a minute. What is more makes the buckets
	// coarser, and once an hour they may begin anew.
	nativeMost = 160
	nativeRest = time.Hour

	// nativeZero is the time, in seconds, that counts as none: 2^-14, 61 us. Two
	// reads that are nearer found what the kernel had already.
	nativeZero = 1.0 / (1 << 14)
)

func newLatency(reg prometheus.Registerer) latency {
	l := latency{
		ttft: both("pdrouter_ttft_seconds",
			"Time from a request's head to the first event with content that its client was sent, of streams, whatever became of them.", firstBounds(), "model", "endpoint"),
		gaps: both("pdrouter_inter_token_seconds",
			"Time between two reads from decode that brought tokens, of streams, whatever became of them.", gapBounds(), "model", "endpoint"),
		prefill: both("pdrouter_prefill_seconds",
			"Time from the sending of a prefill leg to the end of its answer, of those that succeeded.", firstBounds(), "model", "dialect"),
		handOff: both("pdrouter_handoff_wait_seconds",
			"Time from the end of prefill's answer to decode's first event with content, of streams; 0 if that came first.", handOffBounds(), "model", "dialect"),
		decode: both("pdrouter_decode_seconds",
			"Time from decode's first event with content to its last, of streams, whatever became of them.", decodeBounds(), "model", "dialect"),
	}
	reg.MustRegister(l.ttft, l.gaps, l.prefill, l.handOff, l.decode)
	return l
}

// both returns a family of histograms in both forms. The native one is told to
// scrapers that ask for it.
func both(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: bounds,
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramZeroThreshold: nativeZero,
		NativeHistogramMaxBucketNumber: nativeMost, NativeHistogramMinResetDuration: nativeRest,
	}, labels)
}

// firstBounds are those of what a person waits for: fine where answers feel
// prompt, 200 to 500 ms and up to 5 s, then as coarse as prompts of hundreds of
// thousands of tokens are slow, to --first-byte-timeout-secs (600 s).
func firstBounds() []float64 {
	return []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75,
		1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600,
	}
}

// gapBounds are those of the time for one token: engines take 5 to 50 ms, people
// read at 4 to 10 tokens a second, and a stream that is silent for a second is
// stuck; --stream-idle-timeout-secs (60 s) ends it.
func gapBounds() []float64 {
	return []float64{
		0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075,
		0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60,
	}
}

// handOffBounds are those of blocks that cross a network and of decode's first
// step: some milliseconds over NVLink or RDMA, a second and more over TCP, or
// behind a decode engine that has no room.
func handOffBounds() []float64 {
	return []float64{
		0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75,
		1, 2, 3, 5, 10, 30, 60, 120, 300,
	}
}

// decodeBounds are those of whole answers: ten tokens to ten thousands of them,
// 10 to 100 a second.
func decodeBounds() []float64 {
	return []float64{0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600}
}

// A latencies is a latency of one model, endpoint and dialect.
type latencies struct {
	ttft, prefill         *witnessed
	gaps, handOff, decode prometheus.Observer
}

// bind makes the series of a model, an endpoint and a dialect, which are 0 until
// something is counted: it is we who count, so that is true.
func (l *latency) bind(model, endpoint, dialect string) latencies {
	return latencies{
		ttft:    witness(l.ttft.WithLabelValues(model, endpoint), firstBounds()),
		gaps:    l.gaps.WithLabelValues(model, endpoint),
		prefill: witness(l.prefill.WithLabelValues(model, dialect), firstBounds()),
		handOff: l.handOff.WithLabelValues(model, dialect),
		decode:  l.decode.WithLabelValues(model, dialect),
	}
}
