package workers

import (
	"math"
	"time"
)

const (
	// waitWeight is the weight of one more observation.
	waitWeight = 1.0 / 16

	// outlookLasts is how many steps an outlook is good for.
	outlookLasts = 8
)

// A ledger knows how full the KV cache of one decode worker is, and will be. It
// puts together what the engine says, which is a while old and of all requests,
// and what we know at once, but only of ours: which leases there are, how long
// their prompts are, and how far their answers have come.
//
//	used now = what others held by the last report + what ours hold now
//
// Others are all that the report had beyond ours at its time (see others), so
// that a lease which ends gives its space back at once, also if the next report
// is five seconds away. What ours will need is in the outlook.
//
// Without a report that tells how much of the KV is used there is no ledger:
// known is false, and nothing else means anything. A ledger's zero value is
// ready for use. The registry's lock guards it.
type ledger struct {
	epoch    time.Time
	capacity float64 // tokens; 0: not known
	block    float64 // tokens of one; 0: not known
	context  float64 // tokens of a prompt and its answer at most; 0: not known
	reported float64 // when the last report was made, in seconds since epoch
	others   others
	trail    trail
	ration   ration
	trend    trend

	claims  []*claim
	unsent  float64 // tokens of the prompts that the engine does not know of
	sent    float64 // and of those whose answer has not begun
	begun   float64 // and of those whose answer has, less the step at which each did
	running float64 // how many these are

	now   float64  // of what is counted here, in seconds since epoch
	steps float64  // that the engine has made: each gives every answer a token
	rate  stepRate // of them
	wait  float64  // seconds from a grant to the first token

	prompts, answers float64 // tokens of those that have ended, the old ones counting less

	outlook outlook
	looked  float64 // the step of which outlook is
	peak    float64 // of the outlook, with all to spare that ever is
	peaked  bool    // peak is up to date
	asking  claim   // of the request that is being looked at
}

// known reports whether the engine tells enough for there to be a ledger.
func (l *ledger) known() bool { return l.capacity > 0 }

// advance brings what grows by itself up to now. It returns what ours held
// until then.
func (l *ledger) advance(now time.Time) span {
	if l.epoch.IsZero() {
		l.epoch, l.rate = now, newStepRate()
		l.others.until = othersFirst
	}
	if passed := now.Sub(l.epoch).Seconds() - l.now; passed > 0 {
		l.now += passed
		l.steps += passed * l.rate.value
	}
	return l.held()
}

// held returns how many tokens of KV ours hold now: those that have begun for
// certain, and those whose prompt the engine knows of at most.
func (l *ledger) held() span {
	begun := max(l.begun+l.running*l.steps, 0)
	return span{begun, begun + l.sent}
}

// mark notes how what ours hold has changed just now.
func (l *ledger) mark(before span) {
	l.trail.mark(l.now, before, l.held())
	l.trend.mark(l.now, l.usedNow())
}

// usedNow returns how many tokens of KV are in use.
func (l *ledger) usedNow() float64 {
	return min(max(l.others.held+l.held().most, 0), l.capacity)
}

// ours returns what our claims hold, or will as soon as their engine has it.
func (l *ledger) ours() float64 { return l.held().most + l.unsent }

// report takes in what the engine says.
func (l *ledger) report(r *Report, now time.Time) {
	before := l.advance(now)
	at := min(r.At.Sub(l.epoch).Seconds(), l.now)
	if !(r.KVCapacity > 0) || !(r.KVUsed >= 0) || l.known() && at <= l.reported {
		return
	}
	first := !l.known()
	l.capacity, l.reported = r.KVCapacity, at
	l.block, l.context = atLeast(r.BlockSize, 0), atLeast(r.MaxContext, 0)
	l.rate.report(at, r)
	l.restate()
	l.mark(before)
	ours, blind := l.trail.around(at), l.rate.blind(at)
	if blind {
		ours.most = math.Inf(1)
	}
	l.others.learn(l.steps, r.KVUsed, l.capacity, ours)
	switch noise := othersNoise * l.capacity; {
	case l.others.held > noise:
		l.others.until, l.others.seen = l.now+othersLast, true
	case !blind && ours.least > l.capacity/2 && !l.others.seen && l.others.mostAt(l.steps) <= noise:
		l.others.until = min(l.others.until, l.now) // there is nobody else
	}
	l.look()
	if first || !blind && l.ration.over(at) && !l.rationHidden() {
		l.ration = l.rationNow()
	}
}

// restate counts anew what answers have grown, once it is known how fast.
func (l *ledger) restate() {
	if !l.rate.settled(l.now) {
		return
	}
	for _, c := range l.claims {
		if c.stage == claimBegun {
			l.setGrown(c, min((l.now-c.since)*l.rate.value, c.limit))
		}
	}
}

// atLeast returns v, or least if v is less or not known.
func atLeast(v, least float64) float64 {
	if v > least {
		return v
	}
	return least
}

// grant counts a claim, whose memory is the caller's and the ledger's until end.
func (l *ledger) grant(c *claim, n need, now time.Time) {
	before := l.advance(now)
	l.claimOf(c, n)
	c.place = len(l.claims)
	l.ration.grant(c)
	l.claims = append(l.claims, c)
	l.unsent += c.prompt
	l.foresee(c)
	l.outlook.add(&c.course, 1)
	l.peaked = false
	l.mark(before)
}

// claimOf makes c the claim that a request would have.
func (l *ledger) claimOf(c *claim, n need) {
	prompt := n.habits.promptTokens(n.bytes)
	longest := float64(lengthMost)
	if l.known() {
		longest = l.capacity
	}
	if l.context > 0 {
		longest = min(longest, l.context)
	}
	longest = max(longest-prompt, 1)
	c.habits, c.bytes, c.bin, c.answers = n.habits, n.bytes, -1, float64(max(n.answers, 1))
	c.prompt, c.granted, c.limit = l.whole(prompt, c.answers), l.now, longest
	if n.limit > 0 {
		c.limit = min(float64(n.limit), longest)
	}
	c.stage = claimGranted
}

// whole returns how many tokens of KV a request takes with so many tokens, on
// average: half a block of each of its answers is not used.
func (l *ledger) whole(tokens, answers float64) float64 { return tokens + answers*l.block/2 }

// promptIs notes how many tokens the prompt of a claim has.
func (l *ledger) promptIs(c *claim, tokens int, now time.Time) {
	before := l.advance(now)
	more := l.whole(float64(tokens), c.answers) - c.prompt
	switch c.stage {
	case claimNone:
		return
	case claimGranted:
		l.unsent += more
	case claimSent:
		l.sent += more
	case claimBegun:
		l.begun += more
	}
	c.habits.promptIs(c.bytes, float64(tokens))
	c.prompt += more
	l.outlook.add(&c.course, -1)
	c.course.prompt = c.prompt
	l.outlook.add(&c.course, 1)
	l.peaked = false
	l.mark(before)
}

// tell notes that the engine is told of a claim.
func (l *ledger) tell(c *claim, now time.Time) {
	if c.stage != claimGranted {
		return
	}
	before := l.advance(now)
	c.stage = claimSent
	if l.ration.has(c.granted) {
		l.ration.told = l.now
	}
	l.unsent -= c.prompt
	l.sent += c.prompt
	l.mark(before)
}

// begin notes that the first token of an answer has come.
func (l *ledger) begin(c *claim, now time.Time) {
	if c.stage == claimGranted {
		l.tell(c, now)
	}
	if c.stage != claimSent {
		return
	}
	before := l.advance(now)
	c.stage, c.began, c.since = claimBegun, l.steps, l.now
	if l.rate.began < 0 {
		l.rate.began = l.now
	}
	l.sent -= c.prompt
	l.begun += c.prompt - c.answers*c.began
	l.running += c.answers
	l.wait += (l.now - c.granted - l.wait) * waitWeight
	l.mark(before)
}

// setGrown sets how many tokens each of its answers has.
func (l *ledger) setGrown(c *claim, tokens float64) {
	l.begun += c.answers * c.began
	c.began = l.steps - tokens
	l.begun -= c.answers * c.began
}

// end takes a claim out. Tokens are those of all its answers, below 0 if that is
// not known; whole says that nobody broke it off.
func (l *ledger) end(c *claim, tokens int, whole bool, now time.Time) {
	before := l.advance(now)
	switch c.stage {
	case claimNone:
		return
	case claimGranted:
		l.unsent -= c.prompt
	case claimSent:
		l.sent -= c.prompt
	case claimBegun:
		l.endBegun(c, tokens, whole, before)
	}
	last := len(l.claims) - 1
	l.claims[c.place] = l.claims[last]
	l.claims[c.place].place = c.place
	l.claims[last] = nil
	l.claims = l.claims[:last]
	l.outlook.add(&c.course, -1)
	l.peaked = false
	c.stage = claimNone
	if last == 0 { // what rounding has left
		l.unsent, l.sent, l.begun, l.running, l.outlook = 0, 0, 0, 0, outlook{}
	}
	l.mark(before)
}

func (l *ledger) endBegun(c *claim, tokens int, whole bool, before span) {
	grown := l.steps - c.began
	if tokens >= 0 {
		grown = float64(tokens) / c.answers
		if took := l.now - c.since; took > 0 && tokens >= 8 {
			l.rate.saw(grown, took)
			l.restate()
		}
	}
	l.prompts += (c.prompt - l.prompts) * growthWeight
	l.answers += (c.answers*grown - l.answers) * growthWeight
	lengths := &c.habits.lengths
	bin := max(binOf(grown), c.bin)
	lengths.pass(c.bin, bin)
	if whole && grown < c.limit {
		lengths.end(bin)
	}
	l.begun -= c.prompt - c.answers*c.began
	l.running -= c.answers
	held := c.prompt + c.answers*grown
	l.yield(held)
	if before.most > 0 {
		l.others.ended(held / before.most)
	}
}

// look makes the outlook anew.
func (l *ledger) look() {
	l.outlook, l.looked, l.peaked = outlook{}, l.steps, false
	for _, c := range l.claims {
		lengths := &c.habits.lengths
		if c.stage == claimBegun {
			bin := max(binOf(l.steps-c.began), c.bin)
			lengths.pass(c.bin, bin)
			c.bin = bin
		}
		lengths.refresh()
		l.foresee(c)
		l.outlook.add(&c.course, 1)
	}
}

// foresee works out the future of a claim.
func (l *ledger) foresee(c *claim) {
	f := &c.course
	f.prompt, f.limit, f.answers, f.grown, f.wait = c.prompt, c.limit, c.answers, 0, 0
	if c.stage == claimBegun {
		f.grown = max(l.steps-c.began, 0)
	} else {
		f.wait = max(c.granted+l.wait-l.now, 0) * l.rate.value
	}
	f.foresee(&c.habits.lengths)
}
