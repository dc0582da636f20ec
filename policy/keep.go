package policy

import "math"

// keep learns how many blocks an engine really keeps. It begins with what the
// engine's KV pool holds, or with the most that may be noted where the engine
// does not tell, and moves with each prompt of which blocks were believed to
// be there.
type keep struct {
	most  float64 // blocks that the KV pool holds, or that may be noted
	share float64 // of these, what is believed to be kept
}

const (
	// A prompt that was found less of than was believed makes the share
	// smaller by keepLess; one that was found whole makes it larger by
	// keepMore. So they balance where one in fifty is found less of.
	keepLess = 0.96
	keepMore = 0.0008

	// leastKept is how many blocks are noted even of an engine that seems to
	// keep nothing, so that it is seen when it does.
	leastKept = 64
)

func newKeep(most float64) keep { return keep{most: most, share: 1} }

// blocks returns how many to note.
func (k *keep) blocks() int { return int(math.Ceil(k.most * k.share)) }

// hold sets what can be kept at most.
func (k *keep) hold(most float64) { k.most = most }

// saw takes in that so many blocks of a prompt were believed to be there, how
// many of them for sure and not by the promise of a leg that had not ended, how
// many were found, and how many blocks of all prompts are noted: if some that
// were sure are gone, that is more than the engine keeps. What blocks of a
// prompt are in bytes is not exact: one more or less says nothing, nor does a
// tenth; and the engine finds whole blocks of its own, each of page of ours.
func (k *keep) saw(believed, sure, found, noted int, page float64) {
	slack := 1 + believed/10 + int(page)
	switch {
	case found+slack < sure:
		k.share = min(k.share, float64(noted)/max(k.most, 1))
		k.share = max(k.share*keepLess, leastKept/max(k.most, 1))
	case found > believed+slack:
		k.share = min(k.share/keepLess, 1)
	case sure > 0:
		k.share = min(k.share*(1+keepMore), 1)
	}
}
