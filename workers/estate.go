package workers

import (
	"math"
	"slices"
	"time"
)

// An Estate is what a registry leaves to that of the process which takes its
// place, beside what a Keeper remembers. Workers are told apart by role and URL.
type Estate struct {
	Draining []Name
	Holdings []Holding
	Habits   map[string]Habit // by model
}

// A Name tells workers apart: no two of a role have one URL.
type Name struct {
	Role Role
	URL  string
}

// Names are the IDs that workers had, so that they keep them, and the number of
// the next worker of each role, so that no ID is used again. Removed are those
// that are in Config.Specs, and were removed.
type Names struct {
	IDs     []ID
	Next    [2]int
	Removed []Name
}

// An ID is what a worker was called.
type ID struct {
	Name
	ID string
}

// A Holding is what one process's requests have of a decode worker's KV cache.
type Holding struct {
	URL  string
	Held float64 // tokens, with the prompts that the engine has not been told of yet
	Peak float64 // the most that they are expected to come to
	Rate float64 // steps a second; 0: not known
	Wait float64 // seconds from a grant to the first token
}

// A Habit is what requests for one model have been like.
type Habit struct {
	Entered, Ended []float64 // answers, by bins of their lengths
	Answers        float64
	Bytes, Tokens  float64 // of prompts
}

// name returns what tells s from others.
func (s *Spec) name() Name { return Name{s.Role, s.URL} }

// Names returns what the workers are called.
func (r *Registry) Names() Names {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := Names{Next: r.next}
	there := map[Name]bool{}
	for _, w := range r.all {
		if !w.removed {
			names.IDs = append(names.IDs, ID{w.name(), w.ID})
			there[w.name()] = true
		}
	}
	for _, s := range r.cfg.Specs {
		if !there[s.name()] {
			names.Removed = append(names.Removed, s.name())
		}
	}
	return names
}

// take returns the ID that a worker had; empty: it had none. Nobody else gets
// it.
func (n *Names) take(name Name) string {
	i := slices.IndexFunc(n.IDs, func(id ID) bool { return id.Name == name })
	if i < 0 {
		return ""
	}
	id := n.IDs[i].ID
	n.IDs = slices.Delete(slices.Clone(n.IDs), i, i+1)
	return id
}

// Read reports whether each worker that is ready has been asked how it is, and
// so whether all is known that can be at the beginning.
func (r *Registry) Read() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read == nil || r.cfg.NoReports || !slices.ContainsFunc(r.all, func(w *Worker) bool {
		return w.ready && !w.removed && w.report.At.IsZero() && w.unread == ""
	})
}

// Leave returns what is left to another process, and has this one share the
// workers with it from now on.
func (r *Registry) Leave() Estate {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Estate{Habits: map[string]Habit{}}
	for _, w := range r.all {
		if w.removed {
			continue
		}
		if w.draining {
			e.Draining = append(e.Draining, w.name())
		}
		if w.Role == Decode && w.ledger.known() {
			e.Holdings = append(e.Holdings, w.ledger.leave(w.URL, now))
			w.room.changed()
		}
	}
	for model, h := range r.habits {
		e.Habits[model] = Habit{slices.Clone(h.lengths.entered[:]), slices.Clone(h.lengths.ended[:]), h.lengths.answers, h.bytes, h.tokens}
	}
	return e
}

// Inherit takes in what another process has left. What its requests hold of KV
// caches is others' here.
func (r *Registry) Inherit(e Estate) {
	for _, s := range r.Statuses() {
		if slices.Contains(e.Draining, s.Worker.name()) {
			_ = r.Drain(s.Worker.ID) // it may have been removed just now
		}
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for model, h := range e.Habits {
		r.habitsLocked(model).inherit(h)
	}
	for _, w := range r.all {
		i := slices.IndexFunc(e.Holdings, func(h Holding) bool { return w.Role == Decode && w.URL == h.URL })
		if i >= 0 {
			w.ledger.inherit(e.Holdings[i], now)
			w.room.changed()
		}
	}
}

// leave returns what ours hold and reckons with others from now on.
func (l *ledger) leave(url string, now time.Time) Holding {
	before := l.advance(now)
	l.look()
	ours, _ := l.needs(&l.outlook, l.seen())
	h := Holding{URL: url, Held: l.ours(), Peak: ours, Wait: l.wait}
	if l.rate.known {
		h.Rate = l.rate.value
	}
	if l.others.there(l.now) {
		h.Held, h.Peak = h.Held+max(l.others.held, 0), h.Peak+max(l.others.mostAt(l.steps), 0)
	}
	l.share()
	l.mark(before)
	return h
}

// share reckons with others: there is another router.
func (l *ledger) share() {
	l.others.until, l.others.seen = l.now+othersLast, true
	l.ration = l.rationNow()
}

// inherit counts what the requests of another process hold, until reports show
// it. That they will grow to their peak is left to them; like all that others
// had at most it fades, as they end.
func (l *ledger) inherit(h Holding, now time.Time) {
	if !l.known() || !(h.Held >= 0) || !(h.Peak >= 0) {
		return
	}
	before := l.advance(now)
	o := &l.others
	o.held, o.most, o.at = max(o.held, h.Held), max(o.mostAt(l.steps), h.Held, h.Peak), l.steps
	if l.rate.tokens < rateTokens && h.Rate > 0 && !math.IsInf(h.Rate, 0) {
		l.rate.value = h.Rate // until it is known better
	}
	l.wait = max(h.Wait, 0)
	l.look()
	l.share()
	l.mark(before)
}

// inherit takes in what was learnt before.
func (h *habits) inherit(was Habit) {
	if len(was.Entered) != lengthBins || len(was.Ended) != lengthBins || !(was.Bytes > 0) || !(was.Tokens > 0) {
		return
	}
	copy(h.lengths.entered[:], was.Entered)
	copy(h.lengths.ended[:], was.Ended)
	h.lengths.answers = was.Answers
	h.lengths.dirty = true
	h.lengths.refresh()
	h.bytes, h.tokens = was.Bytes, was.Tokens
}
