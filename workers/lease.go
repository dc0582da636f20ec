package workers

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// A Lease is the right to send one leg to one worker.
type Lease struct {
	Worker *Worker
	Facts  *Facts // as they were when the lease was granted

	registry *Registry
	pair     *Pair // nil: it is not one of a pair, and not judged
	done     atomic.Bool
}

// A Pair is the two leases that one attempt runs on. Both must be ended, each
// once; then the Pair may be used for another attempt. It must not be copied.
type Pair struct {
	Dialect         string
	Prefill, Decode Lease

	// Expect is what the Chooser expects of the prefill leg.
	Expect Expectation

	// Waited tells whether the request stood in line, and Lacked for what it did
	// as it came. Lease sets them also when it fails.
	Waited bool
	Lacked Shortage

	// Served is when it came to be its turn: a pair was chosen from then on.
	Served time.Time

	by       *choosing // who has chosen it
	permit   Permit
	legs     int // that have not ended
	prompt   Prompt
	computed bool // see Lease.Computed, likewise:
	tokens   int
	cached   int

	// Reserved is how many tokens of decode's KV cache the request is expected
	// to take at the most; NaN: its engine does not tell how full that is.
	Reserved float64

	claim     claim // on decode's KV cache
	tenant    uint64
	generated int // see Lease.Generated, likewise:
	whole     bool
}

// maxPicks bounds how many pairs are offered to the Judge for one lease. What
// it refuses it also bars, and it is avoided from then on, so another one is
// picked the next time if there is one.
const maxPicks = 16

// Lease leases a pair for need, or says why there is none. It waits only as
// long as the Chooser, if it is a Planner, keeps the request for a worker that
// will be free soon, and for backpressure to end: as long as no pair is free,
// but one would be if its engines had less to do. The prompt's chain belongs to
// the registry until the prefill lease has ended.
func (r *Registry) Lease(ctx context.Context, need Need, pair *Pair) error {
	w, _ := r.waiters.Get().(*waiter)
	defer r.putWaiter(w)
	w.Need, w.pair, w.of = need, pair, w
	pair.Waited = false
	if w.looked = r.chosen.Load(); w.looked.looker != nil {
		w.looked.looker.Look(need.Prompt, &w.matches)
		w.Need.Matches = &w.matches
	}
	for range maxPicks {
		need.Explain.Reset() // of a choice that the Judge refused
		if err := r.await(ctx, w); err != nil {
			return err
		}
		if r.judge == nil || r.judge.Permit(&pair.permit, pair.Prefill.Worker, pair.Decode.Worker) {
			return nil
		}
		r.takeBack(pair)
		w.Need.Avoid = append(slices.Clip(w.Need.Avoid), pair.permit.Refused) // its bar may be on its way
	}
	return &NoneError{Mismatch: true, Cause: Breaking}
}

// putWaiter gives back what Lease used.
func (r *Registry) putWaiter(w *waiter) {
	w.Waiter, w.pair, w.looked = Waiter{}, nil, nil
	w.matches.Reset()
	r.waiters.Put(w)
}

// grantLocked grants w the leases of the pair that was chosen among pools.
func (r *Registry) grantLocked(w *waiter, pools []Pool, c Choice) {
	pool, pair := &pools[c.Pool], w.pair
	r.explainLocked(&w.Need)
	pair.tenant, pair.Served = w.Need.Tenant, r.now
	pair.Dialect, pair.prompt, pair.Expect = pool.Dialect, w.Need.Prompt, c.Expect
	r.leaseLocked(pair, pool.Prefill[c.Prefill], pool.Decode[c.Decode])
	r.claimLocked(pair, &w.Need)
	w.granted <- nil
}

// claimLocked counts what a pair will take of decode's KV cache.
func (r *Registry) claimLocked(pair *Pair, n *Need) {
	d := pair.Decode.Worker
	d.ledger.grant(&pair.claim, need{habits: n.habits, bytes: n.Prompt.Bytes, limit: n.MaxTokens, answers: n.Answers}, r.now)
	d.room.changed()
	pair.Reserved = math.NaN()
	if d.ledger.known() {
		pair.Reserved = pair.claim.course.expected()
	}
}

// leaseLocked counts both leases of a pair.
func (r *Registry) leaseLocked(pair *Pair, prefill, decode *Load) {
	pair.by = r.chosen.Load()
	pair.computed, pair.tokens, pair.cached = false, -1, -1
	pair.generated, pair.whole = -1, false
	pair.legs = len(r.next)
	r.open++
	r.countLocked(&pair.Prefill, prefill, pair)
	r.countLocked(&pair.Decode, decode, pair)
}

func (r *Registry) countLocked(lease *Lease, l *Load, pair *Pair) {
	r.clock++
	l.InFlight++
	l.Picked = r.clock
	lease.Worker, lease.Facts, lease.registry, lease.pair = l.Worker, l.Worker.facts, r, pair
	lease.done.Store(false)
}

// takeBack ends both leases of a pair that nobody used.
func (r *Registry) takeBack(pair *Pair) {
	r.tellEnded(pair)
	for _, l := range [...]*Lease{&pair.Prefill, &pair.Decode} {
		l.done.Store(true)
		r.release(l)
	}
}

// tellEnded tells the Chooser what became of a prefill leg that it expects
// something of.
func (r *Registry) tellEnded(p *Pair) {
	if p.by.learner == nil || p.Expect.Ticket == 0 {
		return
	}
	p.by.learner.Ended(p.Prefill.Worker.load.Seat, Prefilled{
		At: time.Now(), Prompt: p.prompt, Expect: p.Expect, OK: p.computed, Tokens: p.tokens, Cached: p.cached,
	})
}

// LeasePair leases two workers that were named, or says why it cannot. It does
// not wait. All that keeps a request from the pair keeps this one from it too:
// every bar, and what the Judge says. So it may be the trial of a breaker whose
// time is over, and is nothing sooner.
func (r *Registry) LeasePair(ctx context.Context, prefill, decode *Worker, pair *Pair) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.takePair(prefill, decode, pair, time.Now()); err != nil {
		return err
	}
	if r.judge == nil || r.judge.Permit(&pair.permit, prefill, decode) {
		return nil
	}
	r.takeBack(pair)
	return &NoneError{Mismatch: true, Cause: Breaking}
}

// takePair grants the leases of a pair that was named.
func (r *Registry) takePair(prefill, decode *Worker, pair *Pair, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range [...]*Worker{prefill, decode} {
		if w.state() != Ready {
			return &NoneError{Role: w.Role}
		}
		if bar := w.barLocked(); bar.Until.After(now) {
			return (&NoneError{Role: w.Role, Cause: bar.Cause}).until(bar.Until)
		}
	}
	if !MayPair(prefill.facts, decode.facts) {
		return &NoneError{Mismatch: true, Why: discord(prefill.facts, decode.facts)}
	}
	for _, b := range r.pairBars {
		if b.prefill == prefill && b.decode == decode && b.until.After(now) {
			return (&NoneError{Mismatch: true, Cause: Breaking}).until(b.until)
		}
	}
	pair.Dialect, pair.prompt, pair.Expect, pair.tenant = prefill.facts.Dialect, Prompt{}, Expectation{}, 0
	r.now = now
	r.leaseLocked(pair, &prefill.load, &decode.load)
	r.claimLocked(pair, &Need{habits: r.habitsLocked(""), MaxTokens: 1})
	return nil
}

// Began tells, of a decode lease, that the first token has come. It is called
// before Done, once at most.
func (l *Lease) Began() {
	l.change(beginClaim, 0)
	if j := l.registry.judge; j != nil && l.pair != nil {
		j.Began(&l.pair.permit)
	}
}

// Computed tells, of a prefill lease, that the engine has computed the prompt,
// and how many tokens it said that the prompt has, and how many of these it had
// in its cache; below 0: it did not say. It is called before Done, once at most.
func (l *Lease) Computed(tokens, cached int) {
	if l.pair != nil {
		l.pair.computed, l.pair.tokens, l.pair.cached = true, tokens, cached
	}
	if tokens > 0 {
		l.change((*ledger).promptIs, tokens)
	}
}

// Done ends the lease, with what the leg says about its worker: nil if the
// worker did its job (a 400 is doing its job), context.Canceled if we cannot
// tell, a *Fault, or anything else if it was the worker's fault. A second call
// panics (I1).
func (l *Lease) Done(outcome error) {
	if l.done.Swap(true) {
		panic("workers: lease of " + l.Worker.ID + " ended twice")
	}
	r, w := l.registry, l.Worker
	if l.pair != nil {
		if w.Role == Prefill {
			r.tellEnded(l.pair)
		}
		if r.judge != nil {
			r.judge.Ended(&l.pair.permit, w.Role, outcome)
		}
	}
	r.release(l)
}

func (r *Registry) release(l *Lease) {
	w := l.Worker
	r.mu.Lock()
	w.load.InFlight--
	if w.load.InFlight < 0 {
		r.mu.Unlock()
		panic("workers: " + w.ID + " has less than no request under way")
	}
	if l.pair != nil {
		r.endLegLocked(l)
	}
	gone := w.removed && r.forgetLocked(w)
	r.serveAllLocked()
	r.mu.Unlock()
	if gone {
		r.gone(w)
	}
}

// endLegLocked counts that a leg of a pair has ended.
func (r *Registry) endLegLocked(l *Lease) {
	p := l.pair
	if p.legs--; p.legs == 0 {
		r.open--
	}
	if l.Worker.Role == Decode {
		l.Worker.ledger.end(&p.claim, p.generated, p.whole, time.Now())
		l.Worker.room.changed()
		r.tenants.pay(p.tenant, float64(max(p.generated, 0)))
	}
}
