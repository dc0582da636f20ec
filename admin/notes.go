package admin

import (
	"maps"
	"sync"
	"time"

	"pdrouter/workers"
)

// A note is what was said of a worker here and does not concern its registry.
type note struct {
	labels   map[string]string
	priority uint32
	cost     float64
	since    time.Time // of the last change
}

// changed returns n with what s says. Labels are added to, as in smg.
func (n note) changed(s *spec) note {
	if len(s.labels) > 0 {
		all := maps.Clone(n.labels)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, s.labels)
		n.labels = all
	}
	if s.priority != nil {
		n.priority = *s.priority
	}
	if s.cost != nil {
		n.cost = *s.cost
	}
	return n
}

// maxHeirs bounds the IDs of replaced workers that still find their heirs.
const maxHeirs = 1000

// notes are the notes by worker. A worker that is replaced keeps none, but its
// ID leads to its heir: with smg a worker keeps its ID then, and here an ID is
// never used again.
type notes struct {
	start time.Time // of the daemon, near enough

	mu    sync.Mutex // guards the following
	byID  map[string]note
	heirs map[string]string
}

func newNotes() notes {
	return notes{start: time.Now(), byID: map[string]note{}, heirs: map[string]string{}}
}

// of returns the note of a worker.
func (n *notes) of(id string) note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ofLocked(id)
}

func (n *notes) ofLocked(id string) note {
	if known, ok := n.byID[id]; ok {
		return known
	}
	return note{priority: defaultPriority, cost: defaultCost, since: n.start}
}

// change notes what s says of a worker.
func (n *notes) change(id string, s *spec) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := n.ofLocked(id).changed(s)
	changed.since = time.Now()
	n.byID[id] = changed
}

// inherit makes heir follow the worker with that ID, with its note if keep is
// set.
func (n *notes) inherit(id, heir string, keep bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if old, ok := n.byID[id]; ok && keep {
		n.byID[heir] = old
	}
	if len(n.heirs) >= maxHeirs {
		clear(n.heirs)
	}
	for older, followed := range n.heirs {
		if followed == id {
			n.heirs[older] = heir
		}
	}
	n.heirs[id] = heir
}

// current returns the ID of the worker that an ID leads to.
func (n *notes) current(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if heir, ok := n.heirs[id]; ok {
		return heir
	}
	return id
}

// prune forgets what is said of workers that are not among all.
func (n *notes) prune(all []workers.Status) {
	there := make(map[string]bool, len(all))
	for _, s := range all {
		there[s.Worker.ID] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.byID, func(id string, _ note) bool { return !there[id] })
	maps.DeleteFunc(n.heirs, func(_, heir string) bool { return !there[heir] })
}
