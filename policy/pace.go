package policy

import "time"

// pace learns how slow a worker is beside all: the time that its legs took over
// the time that they were expected to. One number is learnt from few legs,
// where a line of its own would follow their chances, and draw all prompts to
// whoever was lucky.
type pace struct{ took, expected, n float64 }

const (
	paceMemory = 0.99 // a hundred legs count
	paceLearnt = 8    // legs until which a worker is as slow as all

	// paceEqual is how far from all a worker may be and still counts as like
	// them: workers of one kind are to be equal, not nearly so.
	paceEqual = 0.08

	// paceMost bounds what one leg says: it may have waited for something that
	// has nothing to do with its worker.
	paceMost = 4

	// paceFades is how much of what is known of a worker is lost with each leg
	// of another one. A slow worker gets none as long as others are free, and
	// would else be slow for ever.
	paceFades = 0.002
)

func (p *pace) learn(expected, took time.Duration) {
	took = min(took, paceMost*expected)
	p.took = p.took*paceMemory + took.Seconds()
	p.expected = p.expected*paceMemory + expected.Seconds()
	p.n = p.n*paceMemory + 1
}

// fade makes the worker more like all.
func (p *pace) fade() { p.took += paceFades * (p.expected - p.took) }

// value is above 1 for a worker that is slower than all.
func (p *pace) value() float64 {
	if p.n < paceLearnt || p.expected <= 0 || p.took <= 0 {
		return 1
	}
	if v := p.took / p.expected; v < 1-paceEqual || v > 1+paceEqual {
		return v
	}
	return 1
}
