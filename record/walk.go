package record

import (
	"cmp"
	"slices"
)

// An entry is a record in the book at one moment. A record is used again when
// its request is forgotten: by its number one can tell.
type entry struct {
	*Request
	number uint64
}

// Count returns the number of the request that came last.
func (b *Book) Count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// Oldest shows see the requests that run, the oldest first, until it returns
// false. The View is used again for the next one.
func (b *Book) Oldest(see func(v *View) bool) {
	b.mu.Lock()
	all := b.runningLocked(nil)
	b.mu.Unlock()
	sortByAge(all)
	walk(all, func(v *View) bool { return !v.Running() || see(v) })
}

// Latest shows see the last requests that have ended, the latest first, until it
// returns false. The View is used again for the next one.
func (b *Book) Latest(see func(v *View) bool) {
	b.mu.Lock()
	all := b.endedLocked(nil)
	b.mu.Unlock()
	walk(all, see)
}

// Find returns the records of the requests with that ID, of which clients may
// have given several the same: those that run, the oldest first, then those that
// have ended, the latest first.
func (b *Book) Find(id string) []View {
	other := func(e entry) bool { return e.view.ID != id } // which only Begin sets
	b.mu.Lock()
	running := slices.DeleteFunc(b.runningLocked(nil), other)
	ended := slices.DeleteFunc(b.endedLocked(nil), other)
	b.mu.Unlock()
	sortByAge(running)
	var views []View
	walk(append(running, ended...), func(v *View) bool {
		views = append(views, v.Clone())
		return true
	})
	return views
}

func (b *Book) runningLocked(all []entry) []entry {
	for _, r := range b.running {
		all = append(all, entry{r, r.view.Number}) // which only Begin sets
	}
	return all
}

func (b *Book) endedLocked(all []entry) []entry {
	for i := range b.ended {
		r := b.ended[(b.next+len(b.ended)-1-i)%len(b.ended)]
		if r == nil {
			break
		}
		all = append(all, entry{r, r.view.Number})
	}
	return all
}

func sortByAge(all []entry) {
	slices.SortFunc(all, func(x, y entry) int { return cmp.Compare(x.number, y.number) })
}

// walk shows see those that are still what they were. The book is not locked
// meanwhile, however many there are.
func walk(all []entry, see func(v *View) bool) {
	var v View
	for _, e := range all {
		if e.CopyTo(&v); v.Number == e.number && !see(&v) {
			return
		}
	}
}

// InPhases returns how many of the requests that run for an engine are in each
// phase.
func (b *Book) InPhases() (n [Phases]int) {
	b.mu.Lock()
	all := slices.Clone(b.running)
	b.mu.Unlock()
	for _, r := range all {
		r.mu.Lock()
		if r.view.Ended.IsZero() && r.view.Endpoint != "" {
			n[r.view.Phase]++
		}
		r.mu.Unlock()
	}
	return n
}

// Clone returns a copy of v that shares nothing with it.
func (v *View) Clone() View {
	c := *v
	c.Attempts = slices.Clone(v.Attempts)
	for i := range c.Attempts {
		c.Attempts[i].Choice.Candidates = slices.Clone(v.Attempts[i].Choice.Candidates)
	}
	return c
}
