package workers

import (
	"math"
	"time"
)

const (
	// deviations is how many standard deviations of what all will need are left
	// free.
	deviations = 3

	// marginNow and marginAged are the shares of the capacity that are left
	// free always, and for each second of the last report's age; marginShared is
	// that for what others do at the same moment. MostMargin is the most of all.
	marginNow, marginAged, marginShared, mostMargin = 0.01, 0.005, 0.05, 0.2

	// roomyShare is the most that a claim can add to an outlook's peak, as a
	// share of what it takes: that of p + deviations sqrt(2 p (1 - p)), where p
	// is its chance to be there, and the 2 what needs makes of it at most where
	// no fewer answers have been seen than are there.
	roomyShare = 2.7

	// mostGrowth is by how much a new request of others is expected to grow at
	// most; growthWeight is the weight of one more request of ours in what is
	// expected.
	mostGrowth, growthWeight = 3, 1.0 / 16
)

// A need is what a request asks of a ledger.
type need struct {
	habits *habits
	bytes  int // of its prompt
	limit  int // tokens that an answer may have at most; 0: it does not say

	answers int // 0 is 1
}

// A space says whether a request has space in a worker's KV cache.
type space uint8

// The spaces.
const (
	spaceNow   space = iota // there is space
	spaceLater              // there will be, when others have ended
	spaceNever              // the prompt alone is larger than the whole cache
)

// fits reports whether there is space for a request: for its prompt now, and
// for what is likely to be generated, with all that is there already.
//
// An idle worker has space for any request that it can hold at all, however
// long its answer might become: else it would wait for ever.
//
// Where there is no ledger there is space: others count requests then.
func (l *ledger) fits(n need, now time.Time) space {
	if !l.known() {
		return spaceNow
	}
	l.advance(now)
	if l.steps-l.looked > outlookLasts {
		l.look()
	}
	c := &l.asking
	l.claimOf(c, n)
	switch {
	case c.prompt > l.capacity:
		return spaceNever
	case len(l.claims) == 0 && (l.others.held <= othersNoise*l.capacity || l.others.mostAt(l.steps)+c.prompt <= l.capacity):
		return spaceNow
	}
	n.habits.lengths.refresh()
	if l.roomy(c) {
		return spaceNow
	}
	l.foresee(c)
	then := l.outlook
	then.add(&c.course, 1)
	ours, all := l.needs(&then, n.habits.lengths.answers)
	if all > l.capacity || ours > l.ration.most && l.rationed() {
		return spaceLater
	}
	return spaceNow
}

// roomy reports whether there is space by a bound that is quickly worked out:
// if a request took as much as any like it may, all of the time, and roomyShare
// of it. Most engines are roomy most of the time.
func (l *ledger) roomy(c *claim) bool {
	lengths := &c.habits.lengths
	if lengths.answers < float64(len(l.claims)+1) {
		return false
	}
	if !l.peaked {
		l.peak, l.peaked = l.outlook.peak(deviations*math.Sqrt2), true
	}
	answer := 1.5*lengths.longest + stepBegin(1) + l.wait*l.rate.value/2 // to the end of the outlook's step
	most := l.peak + roomyShare*(c.prompt+c.answers*min(c.limit, answer))
	if most > l.ration.most && l.rationed() {
		return false
	}
	return most+l.others.needs(l.steps, l.growth())+l.margin() <= l.capacity
}

// needs returns how much KV will have to be there for ours, if they come as in
// an outlook, and how much for all. Seen is how many answers the outlook was
// learnt from: how long answers are is as uncertain for all of ours together as
// it is for that many.
func (l *ledger) needs(o *outlook, seen float64) (ours, all float64) {
	uncertain := 1 + float64(len(l.claims)+1)/(seen+1)
	ours = o.peak(deviations * math.Sqrt(uncertain))
	return ours, ours + l.others.needs(l.steps, l.growth()) + l.margin()
}

// growth returns by what factor new requests of others are expected to grow:
// as ours do.
func (l *ledger) growth() float64 {
	if l.prompts == 0 {
		return mostGrowth
	}
	return min(1+l.answers/l.prompts, mostGrowth)
}

// seen returns how many answers the lengths of ours were learnt from.
func (l *ledger) seen() float64 {
	seen := 0.0
	for _, c := range l.claims {
		seen = max(seen, c.habits.lengths.answers)
	}
	return seen
}

// margin returns how many tokens are left free for what we cannot know.
func (l *ledger) margin() float64 {
	share := marginNow + marginAged*(l.now-l.reported)
	if l.others.there(l.now) {
		share += marginShared
	}
	return min(share, mostMargin) * l.capacity
}
