package bench

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"pdrouter/policy"
	"pdrouter/workers"
)

// A Virtual replays traces on a virtual clock: hours of traffic in seconds, on
// a model of prefill workers. It tells the policy what a router can know, when
// it can know it: requests as they come, the end of each prefill leg with the
// tokens that the engine says were cached, and a report of each engine once a
// second. What is in the model's caches is seen by nobody else.
type Virtual struct {
	Workers int     // prefill workers
	Speed   float64 // how many times as fast as in the trace requests come; 0: 1
	Engine  Engine

	// Stale is how old reports are when they come.
	Stale time.Duration

	// NoReports is of engines that cannot be asked how they are, NoUsage of
	// such as do not say how many tokens a prompt had, and how many of them
	// were cached.
	NoReports, NoUsage bool

	// Seed is that of which worker comes first, and of the engines' noise.
	Seed uint64

	// Upsets happen at their times.
	Upsets []Upset

	// Watch is told again and again how many requests have come. If it says
	// false, the replay ends there, and what it returns is of no use. Nil:
	// nobody watches.
	Watch func(came int) bool
}

// An Upset is something that happens to a fleet.
type Upset struct {
	At   time.Duration
	Kind UpsetKind
	Seat int // of the worker; Add: not used
}

// An UpsetKind says what happens.
type UpsetKind uint8

// The kinds.
const (
	Die   UpsetKind = iota // the worker dies; what it had is sent again
	Add                    // a worker is added
	Flush                  // the worker's cache is flushed, and the router is told
)

// run is one replay.
type run struct {
	Virtual
	chooser workers.Chooser
	planner workers.Planner // nil: chooser sends each request on at once
	learner workers.Learner // nil: chooser learns nothing
	looker  workers.Looker

	block   int // tokens of one, in this trace
	now     time.Duration
	order   *rand.Rand
	fleet   []*modelled // by seat
	pools   []workers.Pool
	waiting []*workers.Waiter
	flights map[*workers.Waiter]*flight
	wake    time.Duration
	picked  uint64
	reports []reported
	nextTap time.Duration

	ends []Ended
}

// reported is a report on its way.
type reported struct {
	at   time.Duration
	seat int
	r    workers.Report
}

// An Ended is what came of one request.
type Ended struct {
	At            time.Duration // when it came
	TTFT          time.Duration
	Blocks, Found int           // of its prompt, and those of them that were cached
	Seat          int           // of its worker
	Work          time.Duration // what it took there
}

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// epoch is when virtual time begins.
func epoch() time.Time { return time.Unix(1_000_000_000, 0) }

func (r *run) clock() time.Time { return epoch().Add(r.now) }

// Run replays reqs with a policy, and returns what came of each.
func (v Virtual) Run(reqs []Request, chooser workers.Chooser) []Ended {
	r := &run{
		Virtual: v, chooser: chooser, wake: never, flights: map[*workers.Waiter]*flight{},
		order: rand.New(rand.NewPCG(v.Seed, 0)),
		ends:  make([]Ended, len(reqs)),
	}
	r.block = BlockOf(reqs)
	r.planner, _ = chooser.(workers.Planner)
	r.learner, _ = chooser.(workers.Learner)
	r.looker, _ = chooser.(workers.Looker)
	decode := &workers.Load{Worker: &workers.Worker{Spec: workers.Spec{URL: "http://decode", Role: workers.Decode}}, Weight: 1, Seat: 0}
	r.pools = []workers.Pool{{Decode: []*workers.Load{decode}}}
	for range v.Workers {
		r.add()
	}
	r.order.Shuffle(v.Workers, func(i, j int) {
		p := r.pools[0].Prefill
		p[i], p[j] = p[j], p[i]
	})
	r.play(reqs)
	return r.ends
}

// add adds a worker. The seat after 0, which is that of decode, is 1.
func (r *run) add() {
	m := newModelled(r.Engine, r.block, len(r.fleet)+1, r.Seed)
	r.fleet = append(r.fleet, m)
	r.pools[0].Prefill = append(r.pools[0].Prefill, m.load)
}

// play lets happen what happens, one thing after the other.
func (r *run) play(reqs []Request) {
	flights := make([]flight, len(reqs))
	speed := cmp.Or(r.Speed, 1)
	due := func(i int) time.Duration {
		if i == len(reqs) {
			return never
		}
		return time.Duration(float64(reqs[i].At()) / speed)
	}
	upsets := r.Upsets
	for i := 0; ; {
		first := r.soonest()
		switch {
		case len(upsets) > 0 && upsets[0].At <= min(due(i), first):
			r.now = upsets[0].At
			r.upset(upsets[0])
			upsets = upsets[1:]
		case i < len(reqs) && due(i) < first:
			r.now = due(i)
			for ; i < len(reqs) && due(i) == r.now; i++ {
				flights[i] = flight{at: i, req: &reqs[i], came: r.now}
				r.arrive(&flights[i])
			}
			if r.Watch != nil && !r.Watch(i) {
				return
			}
		case first == never:
			return
		default:
			r.now = first
			r.happen()
		}
		r.plan()
	}
}

// soonest returns when something happens by itself. Reports alone are nothing:
// a replay ends when the last request has.
func (r *run) soonest() time.Duration {
	at, busy := r.wake, len(r.waiting) > 0
	for _, m := range r.fleet {
		at = min(at, m.ends)
		busy = busy || len(m.queue) > 0
	}
	if busy {
		at = min(at, r.nextTap)
	}
	return at
}

// happen is the end of a prefill leg, or a report, or nothing but time.
func (r *run) happen() {
	if r.nextTap <= r.now {
		r.tap()
	}
	for seat, m := range r.fleet {
		if m.ends <= r.now {
			r.ended(seat, m)
		}
	}
}

func (r *run) ended(seat int, m *modelled) {
	f := m.end(r.now)
	m.load.InFlight--
	r.pools[0].Decode[0].InFlight--
	r.ends[f.at] = Ended{At: f.came, TTFT: r.now - f.came, Blocks: len(f.req.HashIDs), Found: f.found, Seat: seat, Work: f.takes}
	if r.learner == nil || f.choice.Expect.Ticket == 0 {
		return
	}
	p := workers.Prefilled{At: r.clock(), Prompt: f.waiter.Need.Prompt, Expect: f.choice.Expect, OK: true, Tokens: -1, Cached: -1}
	if !r.NoUsage {
		p.Tokens, p.Cached = f.req.InputLength, min(f.found*f.req.block(), f.req.InputLength)
	}
	r.learner.Ended(m.load.Seat, p)
}

// tap lets the engines report, and hands on the reports that are old enough.
func (r *run) tap() {
	for _, m := range r.fleet {
		if !m.dead && !r.NoReports {
			r.reports = append(r.reports, reported{r.now, m.load.Seat, m.report(r.clock())})
		}
	}
	for len(r.reports) > 0 && r.reports[0].at+r.Stale <= r.now {
		old := r.reports[0]
		r.reports = r.reports[1:]
		m := r.fleet[old.seat-1]
		if m.dead {
			continue
		}
		m.load.Report = &old.r
		if r.learner != nil {
			r.learner.Reported(old.seat, old.r)
		}
	}
	r.nextTap = r.now + time.Second
}

// arrive makes a request known to the policy.
func (r *run) arrive(f *flight) {
	chain := policy.ChainOf(f.req.HashIDs)
	f.waiter = workers.Waiter{
		Since: r.clock(),
		Need: workers.Need{
			At: r.clock(), Matches: &f.matches,
			// What a token is long is to be learnt.
			Key:    policy.KeyOf(chain, policy.BlockBytes),
			Prompt: workers.Prompt{Chain: chain, Bytes: f.req.InputLength * policy.BlockBytes / r.block},
		},
	}
	if r.looker != nil {
		r.looker.Look(f.waiter.Need.Prompt, &f.matches)
	}
	if r.planner == nil {
		f.choice = r.chooser.Choose(f.waiter.Need, r.pools)
		r.send(f)
		return
	}
	r.flights[&f.waiter] = f
	r.waiting = append(r.waiting, &f.waiter)
}

// plan grants what the policy will have granted now.
func (r *run) plan() {
	for len(r.waiting) > 0 {
		g, wake := r.planner.Next(r.clock(), r.waiting, r.pools)
		if g.Waiter < 0 {
			r.wake = max(wake.Sub(epoch()), r.now+1)
			return
		}
		w := r.waiting[g.Waiter]
		r.waiting = append(r.waiting[:g.Waiter], r.waiting[g.Waiter+1:]...)
		f := r.flights[w]
		delete(r.flights, w)
		f.choice = g.Choice
		r.send(f)
	}
	r.wake = never
}

// send hands a request to its worker.
func (r *run) send(f *flight) {
	load := r.pools[f.choice.Pool].Prefill[f.choice.Prefill]
	r.picked++
	load.InFlight++
	load.Picked = r.picked
	r.pools[0].Decode[0].InFlight++
	r.fleet[load.Seat-1].take(r.now, f)
}

// upset lets something happen to the fleet.
func (r *run) upset(u Upset) {
	switch u.Kind {
	case Add:
		r.add()
	case Flush:
		m := r.fleet[u.Seat]
		m.cache.flush()
		if r.learner != nil {
			r.learner.Flushed(m.load.Seat)
		}
	case Die:
		r.die(r.fleet[u.Seat])
	}
}

// die ends a worker. What it had is sent again.
func (r *run) die(m *modelled) {
	lost := m.queue
	m.queue, m.ends, m.dead = nil, never, true
	p := &r.pools[0]
	for i, l := range p.Prefill {
		if l == m.load {
			p.Prefill = append(p.Prefill[:i:i], p.Prefill[i+1:]...)
			break
		}
	}
	for _, f := range lost {
		p.Decode[0].InFlight--
		if r.learner != nil && f.choice.Expect.Ticket != 0 {
			r.learner.Ended(m.load.Seat, workers.Prefilled{At: r.clock(), Prompt: f.waiter.Need.Prompt, Expect: f.choice.Expect})
		}
	}
	if r.learner != nil {
		r.learner.Gone(m.load.Seat)
	}
	for _, f := range lost {
		r.arrive(f)
	}
}
