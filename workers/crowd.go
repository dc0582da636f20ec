package workers

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
