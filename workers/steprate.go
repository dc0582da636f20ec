package workers

const (
	// firstRate is how many steps a second an engine is taken to make until it
	// has shown how many.
	firstRate = 30

	// rateMemory is what the weight of an observation falls by with the next
	// one; rateTokens is how many tokens make the rate known.
	rateMemory = 15.0 / 16
	rateTokens = 32

	// rateUnknown is for how long, in seconds, an engine may generate for us
	// without a sign of how fast. Then firstRate is as good as any.
	rateUnknown = 10
)

// A stepRate learns how many steps a second an engine makes, each of which
// gives every request that runs a token: from answers that have ended, and from
// what the engine has counted between two reports. The latter is known before
// the first answer has ended, and of streams whose clients want no usage.
type stepRate struct {
	tokens, seconds float64 // of requests that ran; the old ones count less
	value           float64 // steps a second
	known           bool
	from            float64 // since when it is known
	began           float64 // when the first of our answers did; below 0: none has

	generated, running float64 // of the last report
	at                 float64 // when it was made
}

func newStepRate() stepRate { return stepRate{value: firstRate, began: -1} }

// saw notes that requests have run for so many seconds in all and were given so
// many tokens meanwhile.
func (r *stepRate) saw(tokens, seconds float64) {
	r.tokens = r.tokens*rateMemory + tokens
	r.seconds = r.seconds*rateMemory + seconds
	if r.tokens >= rateTokens && r.seconds > 0 {
		r.value = r.tokens / r.seconds
	}
}

// report takes in what an engine's report of a time says. Between two reports
// at which about as many requests run, their number is known well enough.
func (r *stepRate) report(at float64, p *Report) {
	before, running, passed := r.running, p.Running, at-r.at
	tokens := p.GeneratedTokens - r.generated
	r.generated, r.running, r.at = p.GeneratedTokens, running, at
	if tokens >= 0 && passed > 0 && min(before, running) > max(before, running)/2 {
		r.saw(tokens, passed*(before+running)/2)
	}
}

// settled reports whether the rate has become known just now, or is guessed for
// good.
func (r *stepRate) settled(now float64) bool {
	if r.known || r.tokens < rateTokens && (r.began < 0 || now-r.began < rateUnknown) {
		return false
	}
	r.known, r.from = true, now
	return true
}

// blind reports whether it was not known at a time how much our answers had
// grown.
func (r *stepRate) blind(at float64) bool {
	return r.began >= 0 && at >= r.began && (!r.known || at < r.from)
}
