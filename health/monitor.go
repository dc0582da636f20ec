package health

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"pdrouter/workers"
)

const (
	// beat is the longest time between two looks at which workers there are,
	// and the time between two probes of one that is in doubt.
	beat = time.Second

	// leastWait keeps the loop from turning without a pause.
	leastWait = 10 * time.Millisecond

	// mostProbes is how many probes are under way at the same time.
	mostProbes = 128
)

// A Monitor probes the workers that are ready, and keeps the Judge's books of
// who is there. One that is not ready is looked at by the registry.
type Monitor struct {
	cfg   Config
	judge *Judge
	probe func(ctx context.Context, w *workers.Worker, path string) answer
	route func(ctx context.Context, b bootstrap) (answer, route)

	probes [2]struct{ good, bad atomic.Uint64 } // answered so, by role

	mu       sync.Mutex // guards the following
	patients map[*workers.Worker]*patient
}

// A patient is a worker as its probes show it. Monitor.mu guards it.
type patient struct {
	ward      *ward
	asked     time.Time // when it was probed last
	next      time.Time // of the next probe
	busy      bool      // a probe is under way
	failures  int       // in a row
	successes int       // in a row
	proven    bool      // it has answered well once
	barred    bool
	bootstrap bootstrap
	asking    bool   // its bootstrap server is to be asked whatever else is known
	reached   bool   // that has answered once
	state     string // as in events
	said      string // the reason told last
}

// NewMonitor returns a Monitor that tells judge what it finds.
func NewMonitor(judge *Judge) *Monitor {
	return &Monitor{cfg: judge.cfg, judge: judge, probe: probe, route: askRoute, patients: map[*workers.Worker]*patient{}}
}

// Run probes until ctx ends. With Config.DisableProbes it only keeps the books.
func (m *Monitor) Run(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(mostProbes)
	defer func() { _ = g.Wait() }() // nothing in the group returns an error
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(m.round(ctx, &g))
	}
}

// round begins the probes that are due, and returns when the next are.
func (m *Monitor) round(ctx context.Context, g *errgroup.Group) time.Duration {
	statuses := m.judge.registry.Statuses()
	m.judge.keep(statuses)
	m.judge.findSilent(statuses, time.Now())
	m.judge.relieve(statuses, time.Now())
	if m.cfg.DisableProbes {
		return beat
	}
	for _, p := range m.admit(statuses) {
		p.ward.probes.flush()
	}
	now := time.Now()
	wait := beat
	m.mu.Lock()
	defer m.mu.Unlock()
	for w, p := range m.patients {
		if p.busy {
			continue
		}
		if due := p.due().Sub(now); due > 0 {
			wait = min(wait, due)
			continue
		}
		p.busy = g.TryGo(func() error {
			m.examine(ctx, w, p)
			return nil
		})
	}
	return max(wait, leastWait)
}

// admit takes in the workers that have become ready, and returns those that are
// no longer so, with their bars lifted. New ones are probed soon, one after the
// other within a beat.
func (m *Monitor) admit(statuses []workers.Status) []*patient {
	m.mu.Lock()
	defer m.mu.Unlock()
	ready := make(map[*workers.Worker]bool, len(statuses))
	now := time.Now()
	var fresh []*patient
	for i := range statuses {
		w := statuses[i].Worker
		if statuses[i].State != workers.Ready {
			continue
		}
		ready[w] = true
		if m.patients[w] == nil {
			p := &patient{ward: m.judge.ward(w), state: "answering"}
			m.patients[w] = p
			fresh = append(fresh, p)
		}
		if p, b := m.patients[w], bootstrapOf(&statuses[i]); p.bootstrap.peer != b.peer {
			p.bootstrap, p.asking, p.reached = b, b.peer != nil, false
			p.next = now // fresh ones take their turn below
		}
	}
	for i, p := range fresh {
		p.next = now.Add(beat * time.Duration(i) / time.Duration(len(fresh)))
	}
	var gone []*patient
	for w, p := range m.patients {
		if !ready[w] && !p.busy {
			delete(m.patients, w)
			if p.barred {
				p.lift()
				gone = append(gone, p)
			}
		}
	}
	return gone
}

// examine finds out how one worker is, by a probe unless there was traffic.
func (m *Monitor) examine(ctx context.Context, w *workers.Worker, p *patient) {
	m.mu.Lock()
	pace, b, asking := m.pace(p), p.bootstrap, p.asking
	var a answer
	if p.state == "unclear" {
		a.reason = p.said // traffic does not answer that
	}
	m.mu.Unlock()
	worked := time.Since(time.Unix(0, p.ward.good.Load())) < pace
	if !worked {
		bounded, cancel := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
		a = m.probe(bounded, w, m.cfg.ProbePath)
		cancel()
		m.count(w.Role, a.kind)
		if a.kind == answering {
			p.ward.lives(time.Now())
		}
	}
	if a.kind == answering && b.peer != nil && (asking || !worked) {
		if seen := m.inspect(ctx, w, p, b); seen.kind != answering || seen.reason != "" {
			a = seen
		}
	}
	m.judge.failing.Lock()
	last := a.kind == failing && m.judge.isLast(w)
	m.mu.Lock()
	m.learn(p, a, last, time.Now())
	m.mu.Unlock()
	m.judge.failing.Unlock()
	p.ward.probes.flush()
}

// count counts a probe of a worker.
func (m *Monitor) count(role workers.Role, kind answerKind) {
	switch kind {
	case answering:
		m.probes[role].good.Add(1)
	case failing:
		m.probes[role].bad.Add(1)
	case noAnswer:
	}
}

// due returns when the worker is to be probed. One that is barred for its silence
// is asked soon whether it is back.
func (p *patient) due() time.Time {
	if soon := p.asked.Add(beat); p.ward.progress.silent.Load() && soon.Before(p.next) {
		return soon
	}
	return p.next
}

// pace returns the time between two probes: short while there is doubt.
func (m *Monitor) pace(p *patient) time.Duration {
	if p.failures > 0 || p.barred || p.ward.progress.silent.Load() {
		return min(beat, m.cfg.ProbeInterval)
	}
	return m.cfg.ProbeInterval
}

// learn draws the conclusion from an answer.
func (m *Monitor) learn(p *patient, a answer, last bool, now time.Time) {
	first := !p.proven && p.failures == 0
	switch a.kind {
	case noAnswer:
	case answering:
		m.well(p, a)
	case failing:
		m.unwell(p, a, last, now)
	}
	p.busy = false
	p.asked = now
	p.next = now.Add(m.pace(p))
	if first && a.kind == answering {
		// From here on, each at a moment of its own.
		p.next = now.Add(rand.N(m.cfg.ProbeInterval))
	}
	if a.kind == noAnswer {
		p.next = now.Add(min(beat, m.cfg.ProbeInterval))
	}
}

// well counts a probe that was answered. A worker that was never let in by its
// probes needs one good answer only.
func (m *Monitor) well(p *patient, a answer) {
	p.failures = 0
	p.successes++
	if p.barred && p.proven && p.successes < m.cfg.ProbeSuccesses {
		return
	}
	p.proven = true
	if p.barred {
		p.lift()
	}
	to := "answering"
	if a.reason != "" {
		to = "unclear"
	}
	p.say(to, a.reason)
}

// unwell counts a probe that failed. One is enough for a worker that never
// answered well and says itself that it is not fit: it is still starting. The
// last worker of its role stays in, but for that.
func (m *Monitor) unwell(p *patient, a answer, last bool, now time.Time) {
	p.successes = 0
	p.failures++
	starting := a.told && !p.proven
	if p.failures < m.cfg.ProbeFailures && !p.barred && !starting {
		return
	}
	if last && !starting {
		if p.barred {
			p.lift()
		}
		p.say("failing", a.reason+"; it stays in, being the last of its role")
		return
	}
	p.barred = true
	p.ward.sick.Store(true)
	// The next probe renews it. Should there be none, it ends by itself.
	p.ward.probes.put(now.Add(2*(beat+m.cfg.ProbeTimeout)), "probes fail: "+a.reason)
	p.say("failing", a.reason)
}

// lift lets a worker in again.
func (p *patient) lift() {
	p.barred = false
	p.ward.sick.Store(false)
	p.ward.probes.put(time.Time{}, "")
}

// say makes an event of what is new.
func (p *patient) say(to, reason string) {
	if p.state == to && (to == "answering" || p.said == reason) {
		return
	}
	p.ward.probes.tell(Event{Topic: Probes, From: p.state, To: to, Reason: reason})
	p.state, p.said = to, reason
}
