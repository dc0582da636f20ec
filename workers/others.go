package workers

import "math"

const (
	// othersFade is how fast what others had at most is forgotten, once they
	// have less: by half in so many steps. What one of their requests leaves
	// free, another of theirs is likely to take.
	othersFade = 120

	// othersSettle is in how many steps requests of others are taken to have
	// grown, as in the time constant of a mean.
	othersSettle = 240

	// othersNoise is the share of the capacity from which on what we cannot
	// explain by our own requests is taken for those of others, and not for
	// the error of an estimate.
	othersNoise = 0.04

	// othersForget is what part of so little is kept at a report that can be
	// explained without.
	othersForget = 7.0 / 8

	// othersLast is how long, in seconds, others are reckoned with after they
	// were last seen. A router that starts reckons with them for the first
	// minute: the process whose place it takes may still be there.
	othersLast, othersFirst = 600, 60
)

// others is what an engine's reports have beyond our own claims: requests of
// other routers, or of the process that we take over from, and the error of
// our estimates. It is below 0 if we count more than there is, such as when
// requests share blocks of their prompts.
type others struct {
	held    float64 // tokens, by the last report
	most    float64 // the most that they held lately; it fades
	settled float64 // of what they held, what will not grow
	at      float64 // the step at which the last two were true
	until   float64 // when they are not reckoned with any more
	seen    bool    // they were there once
}

// learn takes in that used tokens were held at a time when our own held as
// many as ours says. What can be explained as it was before stays as it was:
// whether an engine has given a request that waits its blocks is not known.
func (o *others) learn(steps, used, capacity float64, ours span) {
	most := o.mostAt(steps)
	held := o.held
	if math.Abs(held) < othersNoise*capacity {
		held *= othersForget
	}
	o.held = min(max(held, used-ours.most), used-ours.least)
	o.most = max(o.held, most)
	o.settled += (max(o.held, 0) - o.settled) * (1 - math.Exp((o.at-steps)/othersSettle))
	o.settled = min(o.settled, max(o.held, 0))
	o.at = steps
}

// ended notes that an ended claim held a share of all that ours held. What we
// counted too much has become less by that share.
func (o *others) ended(share float64) {
	if o.held < 0 {
		o.held *= 1 - share
	}
}

// mostAt returns what has to be left to them now.
func (o *others) mostAt(steps float64) float64 {
	return o.held + max(o.most-o.held, 0)*math.Exp2(-(steps-o.at)/othersFade)
}

// needs returns what has to be left to them if what is new of theirs grows by a
// factor.
func (o *others) needs(steps, growth float64) float64 {
	if o.held <= 0 {
		return o.held
	}
	return max(o.mostAt(steps), o.held+max(o.held-o.settled, 0)*(growth-1))
}

// there reports whether they are to be reckoned with.
func (o *others) there(now float64) bool { return now < o.until }
