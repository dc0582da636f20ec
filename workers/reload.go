package workers

import "pdrouter/exchange"

// A Reload is a configuration that takes the place of the one in force.
type Reload struct {
	// Config has been validated. Its Dialect is the one in force, and its Specs
	// are not looked at: Remove and Add, as in [Registry.Change], say which
	// workers come and go.
	Config Config
	Remove []string
	Add    []Spec

	// Keys are other keys of workers that stay, by their IDs. One that is empty
	// is Config.APIKey, as it is for all workers without one of their own.
	Keys map[string]string

	// Conns is how connections to workers are opened from now on.
	Conns exchange.Config

	// Choose returns who is to choose from now on. It may return the one that it
	// is given, changed. It is called under the registry's lock, as a Chooser is,
	// and when nothing can go wrong any more.
	Choose func(old Chooser) Chooser
}

// Reload puts all of n in force at one moment or, if the set of workers that
// would be left has a fault, nothing of it. It returns the workers added.
// Requests that wait are judged by n from then on; those that have a pair end as
// they began.
func (r *Registry) Reload(n Reload) ([]*Worker, error) {
	r.mu.Lock()
	events, added, err := r.reloadLocked(n)
	var peers []*exchange.Peer
	for _, w := range r.all {
		peers = append(peers, w.Peer)
		if w.bootstrap != nil {
			peers = append(peers, w.bootstrap)
		}
	}
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		p.Reload(n.Conns)
	}
	r.tell(events)
	return added, nil
}

func (r *Registry) reloadLocked(n Reload) (events []Event, added []*Worker, err error) {
	cfg, conns := r.cfg, r.conns
	r.cfg, r.conns = &n.Config, n.Conns // by which the new workers are made
	events, added, err = r.changeLocked(n.Remove, n.Add)
	if err != nil {
		r.cfg, r.conns = cfg, conns
		return nil, nil, err
	}
	for _, w := range r.all {
		if key, other := n.Keys[w.ID]; other {
			w.ownKey = key != ""
			w.rekeyed.Store(&key)
		}
		if key := r.cfg.APIKey; !w.ownKey && w.Key() != key {
			w.rekeyed.Store(&key)
		}
		if w.Role == Prefill {
			w.load.MostInFlight = r.cfg.Admission.PrefillMaxInFlight
		}
	}
	r.rechooseLocked(n.Choose)
	for _, w := range r.all {
		select {
		case w.told <- struct{}{}: // its next visit is due by another clock
		default:
		}
	}
	r.serveAllLocked()
	return events, added, nil
}

// rechooseLocked lets another Chooser choose, or the same. Those that wait have
// been looked up with the old one.
func (r *Registry) rechooseLocked(choose func(old Chooser) Chooser) {
	old := r.chosen.Load().Chooser
	next := choose(old)
	if next == old {
		return
	}
	r.setChooser(next)
	for _, q := range r.queues {
		for _, w := range q.tried {
			w.Need.Matches = nil
		}
		for _, g := range q.line.groups {
			for w := g.first; w != nil; w = w.behind {
				w.Need.Matches = nil
			}
		}
	}
}
