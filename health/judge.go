package health

import (
	"slices"
	"sync"
	"time"

	"pdrouter/workers"
)

// A Judge decides which workers, and which pairs, may take requests. It
// implements workers.Judge.
type Judge struct {
	cfg      Config
	registry Registry
	observe  func(Event)
	wards    sync.Map // *workers.Worker: *ward

	// failing serialises what is decided by whether a worker is the last of its
	// role: of two that fail at the same time, one is it. Only failures take it.
	failing sync.Mutex
}

// The places of a Permit that belong to one breaker each.
const (
	ofPrefill = int(workers.Prefill)
	ofDecode  = int(workers.Decode)
	ofPair    = 2
)

// NewJudge returns a Judge with a validated configuration. What it decides it
// says to registry by bars, and to observe by events, outside every lock of its
// own that a request takes.
func NewJudge(cfg Config, registry Registry, observe func(Event)) *Judge {
	return &Judge{cfg: cfg, registry: registry, observe: observe}
}

// Permit implements workers.Judge. Whoever refuses bars its worker or pair, so
// that the next pick is another one.
func (j *Judge) Permit(p *workers.Permit, prefill, decode *workers.Worker) bool {
	p.Prefill, p.Decode, p.Legs = prefill, decode, 0
	p.Epoch, p.Done, p.Begun, p.Outcome = [3]uint64{}, [3]func(error){}, [3]bool{}, [2]error{}
	first, second := j.ward(prefill), j.ward(decode)
	if j.cfg.DisableBreakers {
		j.noteUse(first, decode)
		return true
	}
	breakers := [3]*breaker{ofPrefill: first.breaker, ofDecode: second.breaker}
	if both := first.pairOf(decode); both != nil {
		breakers[ofPair] = both.breaker
	}
	for place, b := range breakers {
		if b == nil || take(p, place, b) {
			continue
		}
		for earlier := range place {
			give(p, earlier, breakers[earlier])
		}
		p.Refused = [...]workers.Avoid{
			ofPrefill: {Prefill: prefill}, ofDecode: {Decode: decode}, ofPair: {Prefill: prefill, Decode: decode},
		}[place]
		return false
	}
	j.noteUse(first, decode)
	return true
}

// take asks b for a pass and keeps it in p.
func take(p *workers.Permit, place int, b *breaker) bool {
	pass, ok, news := b.ask()
	if news {
		b.out.flush()
	}
	p.Epoch[place], p.Done[place] = pass.epoch, pass.done
	return ok
}

func passOf(p *workers.Permit, place int) pass {
	return pass{p.Epoch[place], p.Done[place], p.Begun[place]}
}

// give gives back a pass that was not used.
func give(p *workers.Permit, place int, b *breaker) {
	book(p, place, b, verdict{})
	p.Done[place] = nil
}

// book ends a pass.
func book(p *workers.Permit, place int, b *breaker, v verdict) {
	if b.tell(passOf(p, place), v) {
		b.out.flush()
	}
}

// Ended implements workers.Judge. The worker is judged now, the pair when both
// legs have ended.
func (j *Judge) Ended(p *workers.Permit, role workers.Role, outcome error) {
	w := p.Prefill
	if role == workers.Decode {
		w = p.Decode
	}
	now, o := time.Now(), classify(outcome)
	d := j.ward(w)
	j.notice(d, o, now)
	if !j.cfg.DisableBreakers {
		j.judge(p, int(role), d, o)
	}
	if j.endLeg(p, role, outcome) && !j.cfg.DisableBreakers {
		j.judgePair(p, now)
	}
}

// endLeg notes that a leg has ended, and reports whether both have.
func (j *Judge) endLeg(p *workers.Permit, role workers.Role, outcome error) bool {
	p.Lock()
	defer p.Unlock()
	if p.Legs&(1<<role) != 0 {
		panic("health: the " + role.String() + " leg of a pair ended twice")
	}
	p.Legs |= 1 << role
	p.Outcome[role] = outcome
	return p.Legs == 1<<workers.Prefill|1<<workers.Decode
}

// notice takes from an outcome what it says beside right and wrong.
func (j *Judge) notice(d *ward, o outcome, now time.Time) {
	switch {
	case o.kind == didWell:
		d.good.Store(now.UnixNano())
		d.lives(now)
		d.pressure.served()
	case o.kind == tooBusy:
		d.lives(now)
		d.pressure.busy(now, o.wait)
	case o.kind == failed && o.fault == workers.Unreachable:
		j.lostTouch(d, o, now)
	}
}

// judge books a worker's outcome. Whether it is the last of its role is only
// asked when it matters.
func (j *Judge) judge(p *workers.Permit, place int, d *ward, o outcome) {
	switch o.kind {
	case didWell:
		book(p, place, d.breaker, verdict{kind: good})
	case failed:
		j.failing.Lock()
		v := verdict{kind: bad, fault: o.fault, err: o.err, last: j.isLast(d.worker)}
		news := d.breaker.tell(passOf(p, place), v)
		j.failing.Unlock()
		if news {
			d.breaks.flush()
		}
	case saysNothing, tooBusy, handOff:
		if p.Done[place] != nil {
			give(p, place, d.breaker)
		}
	}
}

// isLast reports whether no other worker could do what w does: none of its
// role that is ready, has nothing held against it, and serves a model of w's in
// w's dialect.
func (j *Judge) isLast(w *workers.Worker) bool {
	statuses := j.registry.Statuses()
	mine := factsOf(statuses, w)
	now := time.Now()
	for i := range statuses {
		s := &statuses[i]
		if s.Worker != w && s.Worker.Role == w.Role && s.State == workers.Ready && replaces(mine, &s.Facts) && j.ward(s.Worker).live(now) {
			return false
		}
	}
	return true
}

func factsOf(statuses []workers.Status, w *workers.Worker) *workers.Facts {
	for i := range statuses {
		if statuses[i].Worker == w {
			return &statuses[i].Facts
		}
	}
	return &workers.Facts{}
}

// replaces reports whether an engine with facts b could do what one with facts
// a does. What is not known is not held against it.
func replaces(a, b *workers.Facts) bool {
	if a.Dialect != "" && b.Dialect != "" && a.Dialect != b.Dialect {
		return false
	}
	if len(a.Models) == 0 || len(b.Models) == 0 {
		return true
	}
	return slices.ContainsFunc(a.Models, func(m string) bool { return slices.Contains(b.Models, m) })
}

// keep forgets the workers that are no longer there.
func (j *Judge) keep(statuses []workers.Status) {
	there := make(map[*workers.Worker]bool, len(statuses))
	for _, s := range statuses {
		there[s.Worker] = true
	}
	j.wards.Range(func(w, d any) bool {
		if !there[w.(*workers.Worker)] {
			j.wards.Delete(w)
			return true
		}
		d.(*ward).forgetPartners(there)
		return true
	})
}

func (d *ward) forgetPartners(there map[*workers.Worker]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.pairs {
		if !there[w] {
			delete(d.pairs, w)
		}
	}
	for w := range d.charged {
		if !there[w] {
			delete(d.charged, w)
		}
	}
	for w := range d.used {
		if !there[w] {
			delete(d.used, w)
		}
	}
}
