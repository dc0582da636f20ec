package workers

import (
	"math"
	"time"
)

const (
	// countedMost bounds the requests on a decode worker that does not tell how
	// full its KV cache is: as many as vLLM computes at a time by default, on
	// large GPUs.
	countedMost = 1024

	// roomAgain is when it is looked again whether there is room on a decode
	// worker: what is expected of others fades, though nothing happens.
	roomAgain = 250 * time.Millisecond
)

// A room is the Space of a decode worker that has a ledger.
type room struct {
	ledger *ledger
	now    *time.Time // the registry's, of the moment at which it serves

	// refused is the least that was refused since the last change: what is
	// larger need not be asked for. Its habits are nil if nothing was.
	refused need
	at      time.Time // when that was
}

// Has implements Space. A request that is larger than the whole cache has space:
// its engine says so in its own words.
func (m *room) Has(n *Need) bool {
	ask := need{habits: n.habits, bytes: n.Prompt.Bytes, limit: n.MaxTokens, answers: n.Answers}
	if ask.habits == nil || !m.ledger.known() {
		return true
	}
	if m.at.Equal(*m.now) && m.refused.habits == ask.habits && m.refused.bytes <= ask.bytes && atMost(m.refused.limit) <= atMost(ask.limit) &&
		m.refused.answers <= ask.answers {
		return false
	}
	if m.ledger.fits(ask, *m.now) != spaceLater {
		return true
	}
	m.refused, m.at = ask, *m.now
	return false
}

// atMost returns a limit of tokens, of which 0 is none.
func atMost(limit int) int {
	if limit == 0 {
		return math.MaxInt
	}
	return limit
}

// changed says that what was refused may have room now.
func (m *room) changed() { m.refused.habits = nil }

// KV implements Space.
func (m *room) KV() (used, capacity float64, ok bool) {
	if !m.ledger.known() {
		return 0, 0, false
	}
	m.ledger.advance(*m.now)
	return m.ledger.usedNow() + m.ledger.unsent, m.ledger.capacity, true
}

// habitsLocked returns those of requests for a model.
func (r *Registry) habitsLocked(model string) *habits {
	h := r.habits[model]
	if h == nil {
		h = newHabits()
		r.habits[model] = h
	}
	return h
}

// takeReportLocked lets the ledger of w know of a report, if it has one.
func (r *Registry) takeReportLocked(w *Worker, now time.Time) {
	if w.Role != Decode {
		return
	}
	w.ledger.report(&w.report, now)
	w.room.changed()
	w.load.MostInFlight = 0
	switch {
	case w.report.MaxRunning > 0:
		w.load.MostInFlight = int(w.report.MaxRunning)
	case !w.ledger.known():
		w.load.MostInFlight = countedMost
	}
}

// change tells the ledger of a pair's decode worker of something, if the pair
// has a claim there still. Tokens is 0 where it says nothing.
func (l *Lease) change(tell func(g *ledger, c *claim, tokens int, now time.Time), tokens int) {
	if l.pair == nil {
		return
	}
	r, c := l.registry, &l.pair.claim
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.stage != claimNone {
		w := l.pair.Decode.Worker
		tell(&w.ledger, c, tokens, time.Now())
		w.room.changed()
	}
}

func tellClaim(g *ledger, c *claim, _ int, now time.Time)  { g.tell(c, now) }
func beginClaim(g *ledger, c *claim, _ int, now time.Time) { g.begin(c, now) }

// Sent tells, of a decode lease, that its leg is on its way: from now on the
// engine has, or will soon have, given it its KV blocks.
func (l *Lease) Sent() { l.change(tellClaim, 0) }

// Answering tells, of a decode lease, that its answer is being generated, though
// nothing is seen of it before its end.
func (l *Lease) Answering() { l.change(beginClaim, 0) }

// Generated tells, of a decode lease, how many tokens its answer has, and
// whether it ended by itself. It is called before Done, once at most.
func (l *Lease) Generated(tokens int, whole bool) {
	if l.pair != nil {
		l.pair.generated, l.pair.whole = tokens, whole
	}
}
