package policy

import "time"

// queue is the prefill legs that one worker has been sent and has not ended
// yet, in order. Engines take them first come, first served.
type queue struct {
	legs  []queued // a ring, of a power of two
	first uint64   // ticket of the oldest
	next  uint64   // ticket of the next one; tickets begin with 1

	work  time.Duration // of all that have not ended
	open  int
	since time.Time // since when the oldest is being computed
}

// A queued leg.
type queued struct {
	work  time.Duration
	sent  time.Time
	chain []uint64 // of its prompt, until it has ended
	sure  int      // blocks that were there when it was sent, if the engine keeps them
	ended bool
}

// mostPromising is how many legs before one are asked what they promise.
const mostPromising = 64

func (q *queue) at(ticket uint64) *queued { return &q.legs[ticket&uint64(len(q.legs)-1)] }

// push adds a leg and returns its ticket.
func (q *queue) push(now time.Time, work time.Duration) uint64 {
	if q.next == 0 {
		q.first, q.next = 1, 1
	}
	if int(q.next-q.first) == len(q.legs) {
		q.grow()
	}
	if q.open == 0 {
		q.since = now
	}
	*q.at(q.next) = queued{work: work, sent: now}
	q.work += work
	q.open++
	q.next++
	return q.next - 1
}

func (q *queue) grow() {
	legs := make([]queued, max(16, 2*len(q.legs)))
	for t := q.first; t < q.next; t++ {
		legs[t&uint64(len(legs)-1)] = *q.at(t)
	}
	q.legs = legs
}

// expect notes the prompt of a leg that was just pushed, of which so many blocks
// are believed to be held. Those that a leg before it is still to compute are
// promised only: an engine that takes both at one time finds none of them, and
// has evicted nothing.
func (q *queue) expect(ticket uint64, chain []uint64, believed int) {
	leg := q.at(ticket)
	leg.chain, leg.sure = chain, believed
	for t := max(q.first, ticket-min(ticket, mostPromising)); t < ticket && leg.sure > 0; t++ {
		before := q.at(t)
		if n := before.sure; !before.ended && n < min(leg.sure, len(before.chain)) && before.chain[n] == chain[n] {
			leg.sure = n
		}
	}
}

// sent returns when a leg was sent, and how many blocks of its prompt were
// there then; zero if it is not there.
func (q *queue) sent(ticket uint64) (at time.Time, sure int) {
	if ticket < q.first || ticket >= q.next {
		return time.Time{}, 0
	}
	leg := q.at(ticket)
	return leg.sent, leg.sure
}

// end takes a leg out. It returns for how long the worker had nothing older to
// do than this leg, or less than 0 if the leg is not there.
func (q *queue) end(now time.Time, ticket uint64) time.Duration {
	if ticket < q.first || ticket >= q.next || q.at(ticket).ended {
		return -1
	}
	leg := q.at(ticket)
	leg.ended, leg.chain = true, nil
	q.work -= leg.work
	q.open--
	began := q.since
	if leg.sent.After(began) {
		began = leg.sent
	}
	q.since = now
	for q.first < q.next && q.at(q.first).ended {
		q.first++
	}
	return now.Sub(began)
}

// backlog returns how long it will take until the worker has nothing to do.
// A leg that takes longer than expected may end at any moment.
func (q *queue) backlog(now time.Time) time.Duration {
	if q.open == 0 {
		return 0
	}
	done := max(now.Sub(q.since), 0)
	return q.work - min(done, q.at(q.first).work)
}
