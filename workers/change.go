package workers

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrExists reports a worker that is there already: of the same role and URL.
var ErrExists = errors.New("the worker is there already")

// ErrUnknownWorker reports an ID that no worker has, or has any more.
var ErrUnknownWorker = errors.New("no such worker")

// Add adds a worker. It is looked at at once, and gets requests when it is
// ready, at first fewer than the others.
func (r *Registry) Add(spec Spec) (*Worker, error) {
	added, err := r.Change(nil, []Spec{spec})
	if err != nil {
		return nil, err
	}
	return added[0], nil
}

// Remove takes a worker out: it gets no new requests, those it has go on, and
// when they have ended, and Config.DrainSettle has passed, it is forgotten.
func (r *Registry) Remove(id string) error {
	_, err := r.Change([]string{id}, nil)
	return err
}

// Replace removes a worker and adds another, at one moment.
func (r *Registry) Replace(id string, spec Spec) (*Worker, error) {
	added, err := r.Change([]string{id}, []Spec{spec})
	if err != nil {
		return nil, err
	}
	return added[0], nil
}

// Change removes and adds workers, all at one moment or, if the set that would
// be left has a fault, none. It returns those added.
func (r *Registry) Change(remove []string, add []Spec) ([]*Worker, error) {
	r.mu.Lock()
	events, added, err := r.changeLocked(remove, add)
	r.mu.Unlock()
	r.tell(events)
	return added, err
}

// tell tells what a change has led to.
func (r *Registry) tell(events []Event) {
	for _, e := range events {
		if e.Kind == Gone {
			r.gone(e.Worker)
		} else {
			r.observe(e)
		}
	}
}

func (r *Registry) changeLocked(remove []string, add []Spec) (events []Event, added []*Worker, err error) {
	gone, err := r.checkLocked(remove, add)
	if err != nil {
		return nil, nil, err
	}
	for _, spec := range add {
		w, err := r.newWorker(spec)
		if err != nil {
			return nil, nil, err
		}
		added = append(added, w)
	}
	for _, w := range gone {
		events = append(events, r.removeLocked(w)...)
	}
	for _, w := range added {
		r.seatLocked(w)
		events = append(events, Event{Worker: w, Kind: Added})
		events = append(events, r.strandedLocked(w)...)
		if r.start != nil {
			w.cold = true
			r.start(w)
		}
	}
	r.rebuildLocked()
	return events, added, nil
}

// checkLocked reports what is wrong with the set that a change would make, and
// returns the workers that it removes.
func (r *Registry) checkLocked(remove []string, add []Spec) (gone []*Worker, err error) {
	for _, id := range remove {
		w, err := r.findLocked(id)
		if err != nil {
			return nil, err
		}
		gone = append(gone, w)
	}
	set := *r.cfg
	set.Specs = nil
	for _, w := range r.all {
		if !w.removed && !slices.Contains(gone, w) {
			set.Specs = append(set.Specs, w.Spec)
		}
	}
	for _, spec := range add {
		for _, there := range set.Specs {
			if there.Role == spec.Role && there.URL == spec.URL {
				return nil, fmt.Errorf("%s %q: %w", spec.Role, spec.URL, ErrExists)
			}
		}
	}
	set.Specs = append(set.Specs, add...)
	return gone, set.Validate()
}

// findLocked returns the worker with that ID, unless it has been removed.
func (r *Registry) findLocked(id string) (*Worker, error) {
	for _, w := range r.all {
		if w.ID == id && !w.removed {
			return w, nil
		}
	}
	return nil, fmt.Errorf("%q: %w", id, ErrUnknownWorker)
}

// removeLocked takes w out, and forgets it if nothing is to be waited for.
func (r *Registry) removeLocked(w *Worker) []Event {
	event := Event{Worker: w, Kind: Removed, From: w.state(), To: Draining}
	w.removed, w.reason = true, "removed"
	w.stop()
	r.pairBars = slices.DeleteFunc(r.pairBars, func(b pairBar) bool { return b.prefill == w || b.decode == w })
	if r.cfg.DrainSettle == 0 {
		w.settled = true
	} else {
		w.settling = time.AfterFunc(r.cfg.DrainSettle, func() { r.settle(w) })
	}
	if r.forgetLocked(w) {
		return []Event{event, {Worker: w, Kind: Gone, From: Draining, To: Draining}}
	}
	return []Event{event}
}

// settle forgets w, which was removed a while ago, if its requests have ended.
func (r *Registry) settle(w *Worker) {
	r.mu.Lock()
	w.settled = true
	gone := r.forgetLocked(w)
	r.mu.Unlock()
	if gone {
		r.gone(w)
	}
}

// forgetLocked forgets w, which has been removed, if nothing is to be waited
// for any more. It reports whether it did.
func (r *Registry) forgetLocked(w *Worker) bool {
	i := slices.Index(r.all, w)
	if i < 0 || !w.settled || w.load.InFlight > 0 {
		return false
	}
	r.all = slices.Delete(r.all, i, i+1)
	return true
}

// gone tells that w was forgotten, closes its connections and frees its seat.
func (r *Registry) gone(w *Worker) {
	r.disconnect(w)
	if l := r.learner(); l != nil {
		l.Gone(w.load.Seat)
	}
	r.mu.Lock()
	r.seats[w.load.Seat] = false
	r.mu.Unlock()
	r.observe(Event{Worker: w, Kind: Gone, From: Draining, To: Draining})
}

// Drain gives a worker no new requests. Those it has go on. What is asked for
// already is no error.
func (r *Registry) Drain(id string) error { return r.setDraining(id, true) }

// Undrain gives a worker requests again, if it is ready.
func (r *Registry) Undrain(id string) error { return r.setDraining(id, false) }

func (r *Registry) setDraining(id string, draining bool) error {
	r.mu.Lock()
	w, err := r.findLocked(id)
	if err != nil || w.draining == draining {
		r.mu.Unlock()
		return err
	}
	event := Event{Worker: w, From: w.state(), Reason: w.reason}
	w.draining = draining
	event.To = w.state()
	r.rebuildLocked()
	r.mu.Unlock()
	r.observe(event)
	return nil
}
