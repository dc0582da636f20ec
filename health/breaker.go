package health

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"pdrouter/workers"
)

const (
	// buckets is into how many parts gobreaker cuts the window.
	buckets = 10

	// longestOpen is the most to which the open time grows: long enough for an
	// engine to load a large model, short enough that nobody restarts the
	// router instead.
	longestOpen = 5 * time.Minute

	// lastOpen is the most for which the last worker of a role is left alone.
	lastOpen = 2 * time.Second

	// trialBar is for how long others are kept away while a trial is under way.
	// It is renewed whenever somebody comes all the same.
	trialBar = time.Second

	// pastExpiry is added to a bar, because gobreaker lets nobody in at the very
	// moment at which its open time ends.
	pastExpiry = time.Millisecond
)

// errForced is what a new gobreaker is opened with.
var errForced = errors.New("open from the start")

// A verdict is what an outcome says about one breaker's worker or pair.
type verdict struct {
	kind  verdictKind
	fault workers.FaultKind // of a bad one
	err   error             // of a bad one
	last  bool              // nobody else could take the request
}

type verdictKind uint8

const (
	void verdictKind = iota // says nothing
	good
	bad
)

// A pass is the right to send one request.
type pass struct {
	epoch uint64
	done  func(error) // not nil: this is a trial
	begun bool        // it was one, and that was booked with its first token
}

// A breaker is a gobreaker with what that does not have: trials one at a time
// and several of them before it closes, an open time that grows, and a state
// that is published.
//
// gobreaker books an outcome where its request began, so that the failure of a
// stream longer than the window would be lost. Here a request is booked when its
// outcome is known: while the breaker is closed, a pass is no more than its
// epoch, and Allow and done are called together at the end. What was let in
// before the last change of state is not booked at all.
type breaker struct {
	cfg   *Config
	out   *outbox
	about Event // filled in but for From, To and Reason

	mu     sync.Mutex // guards the following
	gate   *gobreaker.TwoStepCircuitBreaker[struct{}]
	state  gobreaker.State // as gate has it
	epoch  uint64          // counts changes of state
	forced bool            // gate is being opened by us
	now    verdict         // being booked
	why    string          // of the next change of state

	until     time.Time // when it may be tried, while it is open
	openings  int       // since it was closed
	last      bool      // it opened as the last of its role
	trying    bool      // a trial is under way
	succeeded int       // trials in a row
	lost      int       // outcomes in a row that were Unreachable

	tally tally
}

// A tally is what metrics tell of a breaker. It outlives restarts.
type tally struct {
	failures, successes uint64 // in all
	failing, succeeding uint64 // in a row
	moves               [3][3]uint64
}

func newBreaker(cfg *Config, out *outbox, about Event) *breaker {
	about.Topic = Breaker
	b := &breaker{cfg: cfg, out: out, about: about}
	b.gate = b.newGate(cfg.OpenTime)
	return b
}

// newGate returns a closed gobreaker that, once open, stays so for a time.
func (b *breaker) newGate(open time.Duration) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   1,
		Interval:      b.cfg.Window,
		BucketPeriod:  b.cfg.Window / buckets,
		Timeout:       open,
		ReadyToTrip:   b.isEnough,
		OnStateChange: b.movedLocked,
		IsExcluded:    func(err error) bool { return errors.Is(err, context.Canceled) },
	})
}

// ask lets a request in, or not. With news, out is to be flushed.
func (b *breaker) ask() (p pass, ok, news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == gobreaker.StateClosed {
		return pass{epoch: b.epoch}, true, false
	}
	b.why = "its time is over: one request at a time tries it"
	done, err := b.gate.Allow()
	if err == nil {
		b.trying = true
		b.barLocked()
		return pass{epoch: b.epoch, done: done}, true, true
	}
	if b.trying {
		b.barLocked() // the last one has ended
		return pass{}, false, true
	}
	return pass{}, false, false
}

// barLocked keeps others away while a trial is under way.
func (b *breaker) barLocked() {
	b.out.put(time.Now().Add(trialBar), fmt.Sprintf("half-open: one request tries it (%d of %d have succeeded)", b.succeeded, b.neededLocked()))
}

// neededLocked returns how many trials must succeed. The last worker of a role
// has to prove itself once only: while it is tried, everybody else is refused.
func (b *breaker) neededLocked() int {
	if b.last {
		return 1
	}
	return b.cfg.SuccessThreshold
}

// tell books the outcome of a request. With news, out is to be flushed.
func (b *breaker) tell(p pass, v verdict) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch != b.epoch || p.begun && v.kind != bad {
		return false
	}
	b.countLocked(v)
	if p.done != nil {
		b.tellTrialLocked(p.done, v)
		return true
	}
	if v.kind == void {
		return false
	}
	if b.state == gobreaker.StateHalfOpen {
		b.tellHalfOpenLocked(v)
		return true
	}
	done, err := b.gate.Allow()
	if err != nil {
		return false // not when closed
	}
	b.now = v
	if v.kind == good {
		done(nil)
	} else {
		done(failure(v.err))
	}
	b.now = verdict{}
	if b.epoch == p.epoch {
		return false
	}
	b.openLocked(v.last)
	return true
}

// tellTrialLocked books the outcome of a trial. A success that is not yet enough
// is kept from gobreaker, which would close; its place is given back.
func (b *breaker) tellTrialLocked(done func(error), v verdict) {
	b.trying = false
	switch v.kind {
	case void:
		done(context.Canceled)
		b.out.put(time.Time{}, "")
	case good:
		b.succeeded++
		if b.succeeded < b.neededLocked() {
			done(context.Canceled)
		} else {
			b.why = fmt.Sprintf("%s succeeded", requests(b.succeeded, "trial"))
			done(nil)
			b.openings, b.last = 0, false
		}
		b.out.put(time.Time{}, "")
	case bad:
		b.why = "the trial failed: " + brief(v.err)
		done(failure(v.err))
		b.openLocked(v.last)
	}
}

// failure returns an error that gobreaker does not take for a cancellation,
// whatever err wraps.
func failure(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return errForced
	}
	return err
}

// trip opens the breaker whatever it has counted.
func (b *breaker) trip(why string) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg.DisableBreakers || b.state == gobreaker.StateOpen {
		return false
	}
	b.why = why
	b.movedLocked("", b.state, gobreaker.StateOpen)
	b.openLocked(false)
	return true
}

// reset closes the breaker and forgets all that it has counted.
func (b *breaker) reset(why string) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate = b.newGate(b.cfg.OpenTime)
	b.openings, b.last, b.trying = 0, false, false
	b.tally.failing, b.tally.succeeding = 0, 0
	if b.state == gobreaker.StateClosed {
		b.epoch++ // what the old engine still says is not booked
		return false
	}
	b.why = why
	b.movedLocked("", b.state, gobreaker.StateClosed)
	b.out.put(time.Time{}, "")
	return true
}

// openLocked puts an open gobreaker of a longer open time in the place of the
// one that has just opened.
func (b *breaker) openLocked(last bool) {
	open := openTime(b.cfg.OpenTime, b.openings, last)
	b.openings++
	b.last, b.trying = last, false
	b.shutLocked(open, b.why)
}

// shutLocked puts a gobreaker in place that is open for a time, and bars whoever
// it belongs to.
func (b *breaker) shutLocked(open time.Duration, why string) {
	b.forced = true
	b.gate = b.newGate(open)
	done, _ := b.gate.Allow() // a new gobreaker is closed
	done(errForced)
	b.forced = false
	b.until = time.Now().Add(open + pastExpiry)
	b.out.put(b.until, "breaker open: "+why)
}

// openTime returns the time of an opening, with a fifth of jitter to either
// side, so that what broke together is not tried together.
func openTime(first time.Duration, openings int, last bool) time.Duration {
	most := max(first, longestOpen)
	if last {
		most = lastOpen
	}
	open := first
	for range openings {
		if open < most {
			open *= 2
		}
	}
	jittered := time.Duration(float64(min(open, most)) * (0.8 + 0.4*rand.Float64()))
	return max(min(jittered, most), 1)
}

// isEnough is gobreaker's ReadyToTrip. It is called with mu held.
func (b *breaker) isEnough(c gobreaker.Counts) bool {
	if b.forced {
		return true
	}
	outcomes := c.TotalFailures + c.TotalSuccesses
	ratio := float64(c.TotalFailures) / float64(outcomes)
	if b.cfg.FailureRatio > 0 && int(outcomes) >= b.cfg.MinRequests && ratio >= b.cfg.FailureRatio {
		b.why = fmt.Sprintf("%d of %d requests failed, the last: %s", c.TotalFailures, outcomes, brief(b.now.err))
		return true
	}
	row := int(c.ConsecutiveFailures)
	if b.now.last {
		row = min(row, b.lost)
	}
	if row < b.cfg.FailureThreshold {
		return false
	}
	b.why = fmt.Sprintf("%s failed in a row, the last: %s", requests(row, "request"), brief(b.now.err))
	return true
}

// movedLocked is gobreaker's OnStateChange. It is called with mu held.
func (b *breaker) movedLocked(_ string, from, to gobreaker.State) {
	if b.forced {
		return
	}
	b.state = to
	b.epoch++
	b.succeeded, b.lost = 0, 0
	b.tally.moves[from][to]++
	e := b.about
	e.From, e.To, e.Reason = from.String(), to.String(), b.why
	b.out.tell(e)
}

func (b *breaker) countLocked(v verdict) {
	switch v.kind {
	case void:
	case good:
		b.tally.successes++
		b.tally.succeeding++
		b.tally.failing, b.lost = 0, 0
	case bad:
		b.tally.failures++
		b.tally.failing++
		b.tally.succeeding = 0
		b.lost++
		if v.fault != workers.Unreachable {
			b.lost = 0
		}
	}
}

// closed reports whether it lets everything in.
func (b *breaker) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == gobreaker.StateClosed
}

// look returns the state and the tally.
func (b *breaker) look() (gobreaker.State, tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state, b.tally
}

// requests returns a number of things in words.
func requests(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// maxReason bounds what of an error becomes part of a reason, in bytes.
const maxReason = 200

// brief returns what an error says, cut to a bearable length.
func brief(err error) string {
	if err == nil {
		return "no reason given"
	}
	s := err.Error()
	if len(s) > maxReason {
		s = s[:maxReason] + "..."
	}
	return s
}
