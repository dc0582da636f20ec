package workers

const (
	// rationShare is what share of the free space ours may take before a report
	// shows what others have taken meanwhile, if there are others. Two routers
	// that both see the same free space must not both fill it.
	rationShare = 0.5

	// yieldShare is what share of the space of a request that ends is not taken
	// again at once, by whoever has more than the others.
	yieldShare = 0.1

	// rationTick is within how many seconds of the first one grants count as
	// the first ones, and how long an engine may take to show what it was told.
	rationTick = 0.1

	// hiddenShare is what share of the first grants need not show.
	hiddenShare = 0.25
)

// A ration is how much ours may come to need until others have been seen again.
// It begins with the first grant, and is over when a report shows what an
// engine holds since it was told of the grants that came with that one: those
// of others that came at the same time show then too.
type ration struct {
	most  float64 // tokens
	begun bool
	from  float64 // when it began
	first float64 // tokens of the prompts of the first grants
	told  float64 // when the engine was told of the last of these
}

// grant notes a grant.
func (r *ration) grant(c *claim) {
	if !r.begun {
		r.begun, r.from = true, c.granted
	}
	if r.has(c.granted) {
		r.first += c.prompt
	}
}

// has reports whether a grant is one of the first.
func (r *ration) has(granted float64) bool {
	return r.begun && granted >= r.from && granted <= r.from+rationTick
}

// over reports whether a report of that time may end it.
func (r *ration) over(at float64) bool {
	return !r.begun || at >= max(r.from, r.told)+rationTick
}

// rationHidden reports whether the engine does not know yet of a good part of
// the first grants.
func (l *ledger) rationHidden() bool {
	hidden := 0.0
	for _, c := range l.claims {
		if c.stage == claimGranted && l.ration.has(c.granted) {
			hidden += c.prompt
		}
	}
	return hidden > hiddenShare*l.ration.first
}

// rationed reports whether ours have to leave others the chance to take their
// part. Who has had half of an engine for itself goes on alone.
func (l *ledger) rationed() bool {
	return l.others.there(l.now) && (l.ours() < l.capacity/2 || l.others.mostAt(l.steps) > othersNoise*l.capacity)
}

// rationNow returns a ration that begins now.
func (l *ledger) rationNow() ration {
	ours, all := l.needs(&l.outlook, l.seen())
	return ration{most: ours + max(l.capacity-all, 0)*rationShare}
}

// yield makes the ration less by a part of what an ended claim held, if ours
// hold more than others. So the shares of two routers become alike.
func (l *ledger) yield(held float64) {
	if l.ours() > l.others.held {
		l.ration.most -= held * yieldShare
	}
}
