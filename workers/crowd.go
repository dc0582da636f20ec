package workers

import (
	"slices"
	"strings"
	"time"
)

// A Crowd is how many requests are under way and how many wait for a pair.
type Crowd struct {
	Open    int            // have their leases
	Lacking [shortages]int // wait, by what for
	Classes map[int]int    // wait, by class, but for those that had a pair before
}

// Waiting returns how many of them wait.
func (c *Crowd) Waiting() (n int) {
	for _, some := range c.Lacking {
		n += some
	}
	return n
}

// Crowd returns how many requests there are at this moment.
func (r *Registry) Crowd() Crowd {
	c := Crowd{Classes: map[int]int{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Open = r.open
	for _, q := range r.queues {
		c.Lacking[q.lacks] += q.len()
		for _, g := range q.line.groups {
			c.Classes[g.class] += g.waiting
		}
	}
	return c
}

// Waiting returns how many requests wait for a pair.
func (r *Registry) Waiting() int {
	c := r.Crowd()
	return c.Waiting()
}

// A Queue is the requests for one model that wait for a pair.
type Queue struct {
	Model   string // as requests name it; empty: they name none
	Waiting int    // all of them
	Tried   int    // those that had a pair before
	Lacks   Shortage
	Oldest  time.Time // since when the one in line waits that has waited longest; zero: none is in line
}

// Queues returns those in which requests wait.
func (r *Registry) Queues() []Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Queue
	for _, q := range r.queues {
		if q.len() == 0 {
			continue
		}
		one := Queue{Model: q.model, Waiting: q.len(), Tried: len(q.tried), Lacks: q.lacks}
		for _, g := range q.line.groups {
			if g.first != nil && (one.Oldest.IsZero() || g.first.Since.Before(one.Oldest)) {
				one.Oldest = g.first.Since
			}
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Queue) int { return strings.Compare(a.Model, b.Model) })
	return all
}
