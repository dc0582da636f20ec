package workers

import "math/bits"

const (
	// lengthBins is how many bins lengths of answers are sorted into: four for
	// each doubling. The last one has all that are longer than 229 376 tokens.
	lengthBins = 68

	// lengthMost is a length in the last bin beyond which nothing is told apart.
	lengthMost = 262143

	// lengthMemory is what the weight of an observation falls by with the next
	// one in the same bin: some 256 of them count. Each bin forgets by itself,
	// so that what is rare is remembered for as long as it takes to come again.
	lengthMemory = 1 - 1.0/256

	// lengthPrior is how many answers have passed each bin before the first
	// one is seen: nothing is expected to end until it was seen to.
	lengthPrior = 4

	// tailEnds is the share that ends in a bin to which fewer than those have
	// come, though tailLearnt answers have been seen: of answers longer than any
	// before, a quarter become twice as long.
	tailEnds   = 0.3
	tailLearnt = 64
)

// lengths learns how long answers are. Of each bin it knows how many answers
// came into it and how many of them ended there. An answer counts in the bins
// that it has passed while it is still being generated, and one that was cut
// off, by its limit or its client, counts as far as it came: so it is not only
// the short ones of a burst that are seen first (Kaplan and Meier's estimate).
type lengths struct {
	entered, ended [lengthBins]float64
	answers        float64 // that have ended by themselves, the old ones counting less
	dirty          bool    // the rest is to be worked out anew

	reaching [lengthBins]float64 // share of answers that come to where a bin begins
	falling  [lengthBins]float64 // how much less it becomes with each token of the bin
	longest  float64             // which hardly any is longer than
}

// binOf returns the bin of a length.
func binOf(tokens float64) int {
	n := uint(max(tokens, 0))
	if n < 4 {
		return int(n)
	}
	e := bits.Len(n) - 1
	return min(4*(e-1)+int(n>>(e-2)&3), lengthBins-1)
}

// binBegin returns the least length in a bin.
func binBegin(b int) float64 {
	if b < 4 {
		return float64(b)
	}
	return float64((4 + b%4) << (b/4 - 1))
}

// pass notes that an answer which had come to bin from has come to bin to.
func (l *lengths) pass(from, to int) {
	for b := from + 1; b <= to; b++ {
		l.entered[b] = l.entered[b]*lengthMemory + 1
		l.ended[b] *= lengthMemory
	}
}

// end notes that an answer has ended by itself in bin b, which it has come to.
func (l *lengths) end(b int) {
	l.ended[b]++
	l.answers = l.answers*lengthMemory + 1
	l.dirty = true
}

// refresh brings what beyond says up to date.
func (l *lengths) refresh() {
	if !l.dirty {
		return
	}
	share, ends := 1.0, tailEnds*min(l.answers/tailLearnt, 1)
	l.longest = lengthMost
	for b := range lengthBins {
		l.reaching[b] = share
		unseen := ends * max(lengthPrior-l.entered[b], 0)
		left := share * (1 - (l.ended[b]+unseen)/(l.entered[b]+lengthPrior))
		l.falling[b] = (share - left) / (binBegin(b+1) - binBegin(b))
		share = left
		if share < leastChance {
			l.longest = min(l.longest, binBegin(b+1))
		}
	}
	l.dirty = false
}

// beyond returns the share of answers that are longer than so many tokens.
func (l *lengths) beyond(tokens float64) float64 {
	b := binOf(tokens)
	return l.reaching[b] - l.falling[b]*(min(tokens, lengthMost)-binBegin(b))
}
