package policy

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pdrouter/workers"
)

// CacheAware sends a prompt to the prefill worker from which its first token
// is expected first: after the legs that the worker has been sent before, and
// the prompt's blocks that are not in its cache. What a prompt must be computed
// anew for counts more than waiting, the more the busier the fleet is: work
// done twice delays all who come later, too.
//
// It keeps an index of which worker holds which blocks, from what it sent
// where, corrected by what engines say. It learns how fast each worker is, how
// many bytes of text make a token, and how much an engine really keeps. There
// is nothing to tune.
//
// As a Planner it keeps requests back while all workers that suit them are
// busy, see Next.
type CacheAware struct {
	cfg   Config
	block blockSize
	seats atomic.Pointer[[]*book] // by seat; some are nil; replaced, not changed

	mirrors mirrors // of the workers whose KV events are followed

	mu      sync.Mutex // guards the rest; taken under the registry's lock
	serial  uint32
	changes uint64 // choices that were made and legs that have ended
	speed   speed
	mean    time.Duration // of the legs' work, of late
	ratio   ratio
	shared  shared
	plan    []planned
	most    int          // in a choice: blocks that the worker which holds most of the prompt does; below 0: none was asked
	need    workers.Need // the one that is being chosen for; here it costs no allocation

	otherPrefill, otherDecode Picker     // for a leg that has another policy; nil: it has not
	keyed                     [2]*Manual // for requests with a routing key, by role; nil: these are like all
}

// NewCacheAware returns the policy.
func NewCacheAware(cfg Config) *CacheAware {
	c := &CacheAware{cfg: cfg, mirrors: newMirrors(cfg)}
	c.block.fixed = cfg.BlockBytes > 0
	c.block.bytes.Store(int64(cmp.Or(cfg.BlockBytes, BlockBytes)))
	c.shared = newShared(c.BlockBytes())
	c.seats.Store(new([]*book))
	return c
}

// book returns what is known of the worker that l is the load of. It is made
// when the worker is first seen, which is the one time that a choice allocates.
func (c *CacheAware) book(l *workers.Load) *book {
	seats := *c.seats.Load()
	if l.Seat < len(seats) && seats[l.Seat] != nil && seats[l.Seat].worker == l.Worker {
		return seats[l.Seat]
	}
	return c.openBook(l)
}

func (c *CacheAware) openBook(l *workers.Load) *book {
	c.serial++
	b := &book{worker: l.Worker, held: newHeld(c.serial, 0), keep: newKeep(0)}
	b.queue.first = uint64(c.serial)<<32 + 1 // no ticket is good at another book
	b.queue.next = b.queue.first
	c.seat(l.Seat, b) // from here on Look may see it
	c.mirrors.attach(l.Seat, b)
	if l.Report != nil {
		c.reported(b, *l.Report)
	}
	for _, other := range *c.seats.Load() { // each gets an equal part now
		if other != nil {
			c.fit(other)
		}
	}
	return b
}

// seat puts b, or nobody, in a seat.
func (c *CacheAware) seat(seat int, b *book) {
	seats := slices.Clone(*c.seats.Load())
	for len(seats) <= seat {
		seats = append(seats, nil)
	}
	seats[seat] = b
	c.seats.Store(&seats)
}

// Look implements workers.Looker.
func (c *CacheAware) Look(p workers.Prompt, m *workers.Matches) {
	seats := *c.seats.Load()
	m.Blocks = slices.Grow(m.Blocks[:0], len(seats))[:len(seats)]
	m.Versions = slices.Grow(m.Versions[:0], len(seats))[:len(seats)]
	stem := 0 // what most workers hold is the beginning that most prompts share
	for i, b := range seats {
		if b == nil {
			m.Blocks[i], m.Versions[i] = 0, 0
			continue
		}
		// In this order: if the set changes meanwhile, it is looked at again.
		m.Versions[i] = b.held.version.Load()
		n := b.held.match(p.Chain, stem)
		if m.Blocks[i] = int32(n); n > 0 && (stem == 0 || n < stem) {
			stem = n
		}
	}
}

// A view is a prompt as one choice sees it.
type view struct {
	need   *workers.Need
	now    time.Time
	shared int     // first blocks that are no reason to prefer a worker
	own    float64 // weight of the prompt's own work against waiting
}

const (
	// ownLeast and ownMost bound the weight of a prompt's own work: 1 would be
	// its own time to the first token, and nobody else's.
	ownLeast = 1.5
	ownMost  = 3
)

// viewOf returns how need is seen. The mean backlog is that of the workers.
func (c *CacheAware) viewOf(need *workers.Need, now time.Time, backlog time.Duration) view {
	v := view{need: need, now: now, own: ownLeast, shared: c.shared.blocks(need.Prompt.Chain)}
	if c.mean > 0 {
		v.own = min(ownLeast+float64(backlog)/float64(c.mean), ownMost)
	}
	return v
}

// An offer is what a request would get from a worker.
type offer struct {
	blocks     int
	counts     int // blocks, but for those that are no reason to prefer the worker
	wait, work time.Duration
	cost       time.Duration
}

// offer returns what b has to offer.
func (c *CacheAware) offer(b *book, seat int, v view) offer {
	o := offer{blocks: b.matched(seat, v.need), wait: b.backlog(v.now, c.mean)}
	o.work = c.work(b, &v.need.Prompt, o.blocks)
	o.counts = max(o.blocks, v.shared)
	own := o.work
	if o.blocks < v.shared {
		own = c.work(b, &v.need.Prompt, v.shared)
	}
	o.cost = o.wait + b.planned + time.Duration(v.own*float64(own))
	return o
}

// Choose implements workers.Chooser.
func (c *CacheAware) Choose(need workers.Need, pools []workers.Pool) workers.Choice {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.see(&need.Prompt)
	c.need = need
	v := c.viewOf(&c.need, need.At, c.backlog(need.At, pools))
	return c.chooseLocked(v, pools)
}

// see takes in that a prompt has come.
func (c *CacheAware) see(p *workers.Prompt) {
	if c.current(p) {
		c.shared.see(p.Chain)
	}
}

// chooseLocked chooses a pair, and counts on it.
func (c *CacheAware) chooseLocked(v view, pools []workers.Pool) workers.Choice {
	var best workers.Choice
	c.most = -1
	room := v.need
	if !anyRoom(pools, room) { // who calls has seen to it, or does not care
		room = nil
	}
	if at, decode := c.scarce(v.need, room, pools); at >= 0 {
		best.Pool, best.Decode = at, decode
		best.Prefill, _ = c.bestPrefill(v, &pools[at], ofDecode(&pools[at], decode, room))
	} else {
		least := time.Duration(-1)
		for i := range pools {
			at, cost := c.bestPrefill(v, &pools[i], ofAny(&pools[i], workers.Prefill, room))
			if at >= 0 && (least < 0 || cost < least) {
				best.Pool, best.Prefill, least = i, at, max(cost, 0)
			}
		}
		best.Decode = c.bestDecode(v.need, &pools[best.Pool], ofPrefill(&pools[best.Pool], best.Prefill, room))
	}
	c.commit(v, &pools[best.Pool], &best)
	return best
}

// bestPrefill returns the place of the worker with the least cost among those
// which are in; among equals, of the one that holds most of the prompt, then of
// the one that a hint points to, and then of the one leased least recently.
func (c *CacheAware) bestPrefill(v view, pool *workers.Pool, in partners) (at int, cost time.Duration) {
	if p := c.other(workers.Prefill, v.need); p != nil {
		if in.count(len(pool.Prefill)) == 0 {
			return -1, 0
		}
		return pick(p, workers.Prefill, v.need, pool.Prefill, in), 0
	}
	return c.ownPrefill(v, pool.Prefill, in)
}

func (c *CacheAware) ownPrefill(v view, loads []*workers.Load, in partners) (at int, cost time.Duration) {
	at = -1
	var best offer
	hinted := hint(v.need, loads, in)
	due := c.dueShares(loads, in)
	x := v.need.Explain
	begin(x, workers.Prefill, leastCost, inSeconds)
	for i, l := range loads {
		if !in.have(i) {
			leaveOut(x, l, workers.LeftNoRoom)
			continue
		}
		b := c.book(l)
		o := c.offer(b, l.Seat, v)
		c.most = max(c.most, o.blocks)
		if i == hinted {
			o.cost -= o.work / hintShare
		}
		if l.Weight < 1 && b.credit < 0 && due {
			leaveOut(x, l, workers.LeftWarming)
			continue
		}
		if x != nil {
			seen := o.candidate(l)
			x.Add(&seen)
		}
		if at < 0 || o.better(best, cost, goesFirst(l, loads[at], i == hinted, at == hinted)) {
			at, best = i, o
		}
		if at == i || o.cost < cost {
			cost = o.cost
		}
	}
	if x != nil && at >= 0 {
		chosen := best.candidate(loads[at])
		x.Keep(&chosen)
	}
	return at, cost
}

// hintShare is what part of its own work a request may wait longer for the
// worker that its routing key or session points to.
const hintShare = 8

// hint returns the place of the worker that need's routing key or session
// points to; below 0: there is none.
func hint(need *workers.Need, loads []*workers.Load, in partners) int {
	best, most := -1, 0.0
	if need.Sticky == 0 {
		return best
	}
	for i, l := range loads {
		if s := score(need.Sticky, l); in.have(i) && (best < 0 || s > most) {
			best, most = i, s
		}
	}
	return best
}

// better reports whether o is to be preferred to the best so far. Costs are
// estimates: those nearly equal are. Then the worker is taken that holds more of
// the prompt, so that engines which are faster than can be told apart compute
// nothing twice either; and then the one that goes first.
func (o offer) better(best offer, least time.Duration, first bool) bool {
	slack := least/equalShare + equalTime
	if o.cost < least-slack || o.cost > least+slack {
		return o.cost < least
	}
	return o.counts > best.counts || o.counts == best.counts && first
}

// goesFirst reports whether l goes before the best so far where their offers are
// equal: if a hint points to it, or else if it was leased less recently.
func goesFirst(l, best *workers.Load, hinted, bestHinted bool) bool {
	return hinted || !bestHinted && l.Picked < best.Picked
}

// Costs are equal if they differ by no more than these.
const (
	equalShare = 50 // one part in so many
	equalTime  = 5 * time.Millisecond
)

// commit counts a choice: the leg's work, and the blocks that its worker will
// hold.
func (c *CacheAware) commit(v view, pool *workers.Pool, best *workers.Choice) {
	c.changes++
	l := pool.Prefill[best.Prefill]
	b := c.book(l)
	o := c.offer(b, l.Seat, v)
	best.Expect = workers.Expectation{
		Ticket: b.queue.push(v.now, o.work), Blocks: o.blocks, Most: c.most, Wait: o.wait, Work: o.work,
	}
	if c.most >= 0 && c.most <= v.shared {
		best.Expect.Most = 0
	}
	if c.current(&v.need.Prompt) {
		b.queue.expect(best.Expect.Ticket, v.need.Prompt.Chain, o.blocks)
		b.held.use(v.need.Prompt.Chain)
		c.book(pool.Decode[best.Decode]).held.use(v.need.Prompt.Chain)
	}
	c.share(pool.Prefill, l)
}

// backlog returns the mean backlog of the prefill workers.
func (c *CacheAware) backlog(now time.Time, pools []workers.Pool) time.Duration {
	var sum time.Duration
	n := 0
	for i := range pools {
		for _, l := range pools[i].Prefill {
			sum += c.book(l).backlog(now, c.mean)
			n++
		}
	}
	return sum / time.Duration(max(n, 1))
}
