package workers

// A choosing is the Chooser in force, with what else it is. It is replaced, not
// changed. What a lease was granted by is told of its end, whoever chooses by
// then.
type choosing struct {
	Chooser
	looker  Looker // the chooser, if it is one; else nil, as the others
	planner Planner
	learner Learner
	sink    KVSink
	memory  Rememberer
}

// setChooser makes c choose.
func (r *Registry) setChooser(c Chooser) {
	by := &choosing{Chooser: c}
	by.looker, _ = c.(Looker)
	by.planner, _ = c.(Planner)
	by.learner, _ = c.(Learner)
	by.sink, _ = c.(KVSink)
	by.memory, _ = c.(Rememberer)
	r.chosen.Store(by)
}

// Chooser returns the Chooser in force.
func (r *Registry) Chooser() Chooser { return r.chosen.Load().Chooser }

// learner returns what wants to learn, or nil.
func (r *Registry) learner() Learner { return r.chosen.Load().learner }

// config returns the configuration in force, for those who do not have the
// lock.
func (r *Registry) config() *Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cfg
}

// flushed tells that a worker's cache is empty.
func (r *Registry) flushed(w *Worker) {
	if l := r.learner(); l != nil {
		l.Flushed(w.Seat())
	}
}
