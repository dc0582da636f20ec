package workers

import "math"

const (
	// trailTick is how long each mark of a trail stands for, in seconds.
	trailTick = 0.1

	// trailTicks is how many marks a trail has: it goes back 16 s, as reports
	// may be that old.
	trailTicks = 160
)

// A trail is how much of the KV our claims held, a short while back, as far as
// we can tell: at least what the answers that had begun held, and at most that
// and the prompts which their engine had been told of. A report tells of a
// moment that has passed; it is compared with what was then.
type trail struct {
	least, most [trailTicks]float64 // ring, by tick
	tick        int64               // the last one that was marked
	last        span                // what was held since then
	since       float64             // when it was
	begun       bool
}

// mark notes what was held until now and is held from now on. What was held
// since the last mark has grown evenly.
func (t *trail) mark(now float64, before, after span) {
	tick := int64(now / trailTick)
	if !t.begun || tick-t.tick >= trailTicks {
		for i := range t.least {
			t.least[i], t.most[i] = after.least, after.most
		}
		t.tick, t.begun = tick, true
	}
	for i := t.tick + 1; i <= tick; i++ {
		s := t.last.toward(before, (float64(i)*trailTick-t.since)/(now-t.since))
		t.widen(i-1, s)
		at := i % trailTicks
		t.least[at], t.most[at] = s.least, s.most
	}
	t.widen(tick, before)
	t.widen(tick, after)
	t.tick, t.last, t.since = tick, after, now
}

// widen makes the mark of a tick have s in it.
func (t *trail) widen(tick int64, s span) {
	at := tick % trailTicks
	t.least[at] = min(t.least[at], s.least)
	t.most[at] = max(t.most[at], s.most)
}

// around returns what was held about then, give or take a tick.
func (t *trail) around(then float64) span {
	tick := int64(then / trailTick)
	first := max(tick-1, t.tick-trailTicks+1, 0)
	s := span{math.Inf(1), 0}
	for i := min(first, t.tick); i <= min(max(tick+1, first), t.tick); i++ {
		at := i % trailTicks
		s = span{min(s.least, t.least[at]), max(s.most, t.most[at])}
	}
	return s
}

// A span is what an amount is at least and at most.
type span struct{ least, most float64 }

// toward returns what has gone a part of the way from s to end.
func (s span) toward(end span, part float64) span {
	part = min(max(part, 0), 1)
	return span{s.least + (end.least-s.least)*part, s.most + (end.most-s.most)*part}
}
