package workers

// An identified is a worker with what it has told of itself last.
type identified struct {
	*Worker
	facts  *Facts
	report Report
}

// toRemember returns the workers of which something may be remembered.
func (r *Registry) toRemember() []identified {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []identified
	for _, w := range r.all {
		if !w.removed && w.facts != nil && len(w.facts.Models) > 0 {
			all = append(all, identified{w, w.facts, w.report})
		}
	}
	return all
}

// recall has what was known of w before the router was restarted known again.
// It costs next to nothing when there is nothing to be recalled.
func (r *Registry) recall(w *Worker, last Report) {
	if r.keeper == nil {
		return
	}
	r.mu.Lock()
	facts, state, removed := w.facts, w.state(), w.removed
	r.mu.Unlock()
	if removed || facts == nil || len(facts.Models) == 0 {
		return
	}
	if event, news := r.keeper.recall(w, facts, last); news {
		event.From, event.To = state, state
		r.observe(event)
	}
}
