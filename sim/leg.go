package sim

import (
	"context"
	"errors"
	"time"
)

// A leg is one prompt of a request on this engine: its hand-off, its place in
// the scheduler, and its answer so far.
type leg struct {
	e     *Engine
	r     *request
	index int
	p     prompt
	q     *sequence

	rid  string // SGLang; vLLM: the id on the side channel
	room uint64 // SGLang
	fake bool   // SGLang: a leg without the other one, as health checks send

	id     uint64 // identity of the prompt that is answered: the one the KV is of
	n      int    // tokens of the answer
	stops  bool   // by itself, after n tokens
	cached int    // prompt tokens reported as cached

	held []int // vLLM prefill: ids of the blocks that wait to be pulled

	text   []byte
	count  int    // tokens made, the end token among them
	reason string // why the answer ended
	emit   func(token string) error
	fault  *Fault
	pace   *pace

	received, dispatched, admitted, computed, first, finished time.Time
}

// newLeg returns the leg of prompt i of a request.
func (e *Engine) newLeg(r *request, i int, remote bool) *leg {
	q := newSequence(r.prompts[i], e.cfg.BlockSize, remote)
	return &leg{e: e, r: r, index: i, p: r.prompts[i], q: q, id: q.id, received: time.Now()}
}

// answer settles what the leg says, now that it is known which prompt its KV
// is of.
func (l *leg) answer(id uint64) {
	l.id = id
	l.n, l.stops = l.r.length(id, l.e.cfg.ContextLength-len(l.p.tokens))
}

// stepTime is how often a leg without a stream looks up from generating.
const stepTime = 50 * time.Millisecond

// generate makes the answer, token by token. The sequence must run; when
// generate fails, it is out of the scheduler.
func (l *leg) generate(ctx context.Context) error {
	pace := newPace(l.e.cfg.DecodePerToken + l.fault.slowness())
	defer pace.stop()
	l.pace = pace
	steps := l.n
	if l.stops {
		steps++ // the end is a token, too
	}
	covered := 0 // tokens that its blocks are known to hold
	for l.count < steps {
		if l.q.tokens() > covered {
			var err error
			if covered, err = l.grow(ctx, steps); err != nil {
				return err
			}
			if covered == 0 {
				break
			}
		}
		if err := l.wedged(ctx); err != nil {
			l.e.sched.leave(l.q)
			return err
		}
		k := l.stride(pace.per, min(steps-l.count, covered-l.q.tokens()+1))
		if preempted, err := pace.wait(ctx, l.q.evicted, k); err != nil {
			l.e.sched.leave(l.q)
			return err
		} else if preempted {
			covered = 0
			continue
		}
		if err := l.speak(k); err != nil {
			l.e.sched.leave(l.q)
			return err
		}
	}
	l.reason = "length"
	if l.stops && l.count == steps {
		l.reason = "stop"
	}
	return nil
}

// wedged waits as long as a fault keeps the leg from getting on.
func (l *leg) wedged(ctx context.Context) error {
	if f := l.fault; f == nil || f.Kind != FaultWedge || l.count < f.Tokens {
		return nil
	}
	select {
	case <-l.fault.over:
		l.fault = nil
		l.pace.restart()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stride returns how many tokens to make at a time, at most most.
func (l *leg) stride(per time.Duration, most int) int {
	if l.emit != nil || l.fault != nil {
		return 1
	}
	if per > 0 {
		most = min(most, int(stepTime/per)+1)
	}
	return max(most, 1)
}

// grow gets blocks for the next token, or for all of the rest if that takes no
// time. It returns for how many tokens there is room, 0 if there will be none.
func (l *leg) grow(ctx context.Context, steps int) (covered int, err error) {
	want := l.q.tokens()
	if l.e.cfg.DecodePerToken == 0 && l.emit == nil {
		want += steps - l.count - 1
	}
	for {
		switch l.e.sched.grow(l.q, want) {
		case growDone:
			size := l.e.cfg.BlockSize
			return (want + size - 1) / size * size, nil
		case growFull:
			return 0, nil
		}
		if err := l.e.sched.resume(ctx, l.q); err != nil {
			return 0, err
		}
		l.pace.restart()
		want = l.q.tokens()
	}
}

// speak makes k tokens.
func (l *leg) speak(k int) error {
	for range k {
		if l.fault != nil && l.fault.after(l.count) {
			return &faulted{l.fault}
		}
		i := l.count
		l.count++
		l.q.generated.Add(1)
		l.e.counts.decoded.Add(1)
		if i == 0 {
			l.first = time.Now()
		}
		if i == l.n {
			return nil // the end
		}
		token := l.r.token(l.id, i, l.n)
		l.text = append(l.text, token...)
		if l.emit == nil {
			continue
		}
		if err := l.emit(token); err != nil {
			return err
		}
	}
	return nil
}

// spoken returns how many tokens of text the answer has.
func (l *leg) spoken() int { return min(l.count, l.n) }

// aborted turns an abort into an answer that was cut short, as SGLang does
// with one that has begun. Any other error it returns.
func (l *leg) aborted(err error) error {
	if !errors.Is(err, errAborted) {
		return err
	}
	l.reason = "abort"
	return nil
}

// A pace is the time that tokens take.
type pace struct {
	per   time.Duration
	next  time.Time
	timer *time.Timer
}

func newPace(per time.Duration) *pace {
	p := &pace{per: per}
	p.restart()
	return p
}

// restart forgets the time in which no token was due.
func (p *pace) restart() {
	if p.per > 0 {
		p.next = time.Now()
	}
}

// wait waits until k more tokens are due, and reports whether the sequence was
// preempted instead. A pace that was held up makes up for it.
func (p *pace) wait(ctx context.Context, evicted <-chan struct{}, k int) (preempted bool, err error) {
	if p.per == 0 {
		select {
		case <-evicted:
			return true, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		default:
			return false, nil
		}
	}
	p.next = p.next.Add(time.Duration(k) * p.per)
	d := time.Until(p.next)
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return false, nil
	case <-evicted:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

func (p *pace) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
