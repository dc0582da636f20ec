package workers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pdrouter/exchange"
)

// A Registry holds the workers and leases them in pairs.
type Registry struct {
	observe func(Event)
	judge   Judge   // nil: everything is permitted
	keeper  *Keeper // nil: nothing is remembered over a restart

	chosen atomic.Pointer[choosing] // replaced under the lock

	// read reads a report of a worker: poll, except in tests.
	read func(context.Context, *Worker) (Report, error)

	mu       sync.Mutex        // guards the following, and what every worker says of it
	cfg      *Config           // replaced, not changed
	conns    exchange.Config   // likewise
	all      []*Worker         // in the order in which they were added
	next     [2]int            // number of the next worker, by role
	names    Names             // of those to come that had one before
	pools    map[string][]Pool // of the workers that are ready, by model; "" is any
	dialects []string          // of all pools, sorted
	pairBars []pairBar         // those that have not ended, and some that have
	clock    uint64            // counts leases
	scratch  scratch
	sifts    uint64             // how often candidates were gathered
	queues   map[string]*queue  // of the requests that wait, by model
	now      time.Time          // of what is being served
	habits   map[string]*habits // of requests, by model
	tenants  tenants
	open     int           // pairs that are leased
	meter    meter         // of requests begun
	seats    []bool        // that are taken
	start    func(*Worker) // begins to watch a worker; nil while Run does not run

	waiters sync.Pool // of *waiter
}

// NewRegistry returns a Registry of the workers in cfg, which has been
// validated. Every worker is unready until Run has looked at it. Observe is
// called with every event, outside any lock, by many goroutines.
func NewRegistry(cfg Config, conns exchange.Config, chooser Chooser, observe func(Event)) (*Registry, error) {
	r := &Registry{
		cfg: &cfg, conns: conns, observe: observe, pools: map[string][]Pool{}, queues: map[string]*queue{}, habits: map[string]*habits{},
		tenants: tenants{byID: map[uint64]*tenant{}}, names: cfg.Names, next: cfg.Names.Next,
	}
	r.read = r.poll
	r.waiters.New = r.newWaiter
	r.setChooser(chooser)
	for _, spec := range cfg.Specs {
		if slices.Contains(cfg.Names.Removed, spec.name()) {
			continue
		}
		w, err := r.newWorker(spec)
		if err != nil {
			return nil, err
		}
		r.seatLocked(w)
	}
	return r, nil
}

// BlockBytes returns how long the blocks of a prompt's chain are to be; 0: the
// Chooser wants no chain.
func (r *Registry) BlockBytes() int {
	if by := r.chosen.Load(); by.looker != nil {
		return by.looker.BlockBytes()
	}
	return 0
}

// SetJudge makes j judge the workers. It is called before anything is leased
// and before Run.
func (r *Registry) SetJudge(j Judge) { r.judge = j }

// newWorker returns a worker that is not part of the registry yet.
func (r *Registry) newWorker(spec Spec) (*Worker, error) {
	peer, err := exchange.NewPeer(spec.URL, r.conns)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", spec.Role, spec.URL, err)
	}
	own := spec.APIKey != ""
	if !own {
		spec.APIKey = r.cfg.APIKey
	}
	w := &Worker{
		Spec: spec, Peer: peer, ownKey: own, rekeyed: &atomic.Pointer[string]{}, pace: noPace(), reason: "not looked at yet",
		told: make(chan struct{}, 1), stop: func() {}, kv: &kvNotes{},
	}
	w.load = Load{Worker: w, Weight: 1, MostInFlight: r.cfg.Admission.PrefillMaxInFlight}
	if spec.Role == Decode {
		w.room = room{ledger: &w.ledger, now: &r.now}
		w.load.MostInFlight, w.load.Space = countedMost, &w.room
	}
	return w, nil
}

// seatLocked gives w its ID, a seat and a place among the others.
func (r *Registry) seatLocked(w *Worker) {
	if w.ID = r.names.take(w.name()); w.ID == "" {
		w.ID = fmt.Sprintf("%s-%d", w.Role, r.next[w.Role])
		r.next[w.Role]++
	}
	if w.load.Seat = slices.Index(r.seats, false); w.load.Seat < 0 {
		w.load.Seat = len(r.seats)
		r.seats = append(r.seats, false)
	}
	r.seats[w.load.Seat] = true
	r.all = append(r.all, w)
}

// Close closes the connections that are not in use. Nothing is observed after
// it but what comes of leases that are still out.
func (r *Registry) Close() {
	r.mu.Lock()
	all := slices.Clone(r.all)
	for _, w := range all {
		if w.settling != nil {
			w.settling.Stop()
		}
	}
	for _, q := range r.queues {
		q.timer.Stop()
	}
	r.mu.Unlock()
	for _, w := range all {
		r.disconnect(w)
	}
}

// disconnect closes the connections to w that are not in use.
func (r *Registry) disconnect(w *Worker) {
	w.Peer.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.bootstrap != nil {
		w.bootstrap.Close()
	}
}

// Dialects returns the dialects in which model may be served now; with the
// empty model, all that are spoken.
func (r *Registry) Dialects(model string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if model == "" {
		return r.dialects
	}
	return dialectsOf(nil, r.pools[model])
}

// dialectsOf adds the dialects of pools to names.
func dialectsOf(names []string, pools []Pool) []string {
	for _, pool := range pools {
		if !slices.Contains(names, pool.Dialect) {
			names = append(names, pool.Dialect)
		}
	}
	return names
}

// Models returns the models that can be asked for now, sorted.
func (r *Registry) Models() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.Sorted(maps.Keys(r.pools))
	return slices.DeleteFunc(names, func(m string) bool { return m == "" })
}

// Statuses returns the status of every worker, in the order in which they were
// added. Each is of a moment of its own, so that requests which want the lock wait
// for one worker at the most; the set of workers is that of one moment.
func (r *Registry) Statuses() []Status {
	for {
		if out, same := r.statuses(time.Now()); same {
			return out
		}
	}
}

// statuses returns the status of every worker, and whether they are still the
// same at the end.
func (r *Registry) statuses(now time.Time) (out []Status, same bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.all)
	out = make([]Status, len(all))
	for i, w := range all {
		out[i] = r.statusLocked(w, now)
		r.mu.Unlock()
		r.mu.Lock()
	}
	return out, slices.Equal(all, r.all)
}

// Get returns the status of the worker with that ID, if it is there.
func (r *Registry) Get(id string) (Status, bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all {
		if w.ID == id {
			return r.statusLocked(w, now), true
		}
	}
	return Status{}, false
}

func (r *Registry) statusLocked(w *Worker, now time.Time) Status {
	if !w.warmFrom.IsZero() {
		r.warmLocked(w, now)
	}
	s := Status{
		Worker: w, State: w.state(), Reason: w.reason, Unfit: w.unfit, InFlight: w.load.InFlight, Removed: w.removed,
		Bars: w.barsLocked(now), Weight: w.load.Weight, Report: w.report, Pace: w.pace, Polls: w.polls, Unread: w.unread, Most: w.load.MostInFlight,
		Bootstrap: w.bootstrap, KVSpace: w.ledger.status(now), KV: w.kv.state(),
	}
	if w.facts != nil {
		s.Facts = *w.facts
	}
	return s
}

// rebuildLocked makes the pools anew from the workers that are ready, and lets
// those look who wait for one. They are made for every model, so that leasing
// is one look-up.
func (r *Registry) rebuildLocked() {
	sets := map[string]*poolSet{}
	enter := func(model, group string, w *Worker) {
		if sets[model] == nil {
			sets[model] = &poolSet{}
		}
		sets[model].add(group, w)
	}
	for _, w := range r.all {
		if w.state() != Ready {
			continue
		}
		for _, m := range w.facts.Models {
			enter(m, w.facts.Dialect, w)
		}
		// A request that names no model may go to any, but to the same on both
		// sides. The first name is that of the engine's own model.
		enter("", w.facts.Dialect+"/"+w.facts.Models[0], w)
	}
	r.pools, r.dialects = map[string][]Pool{}, nil
	for m, set := range sets {
		if whole := set.whole(); len(whole) > 0 {
			r.pools[m] = whole
			r.dialects = dialectsOf(r.dialects, whole)
		}
	}
	slices.Sort(r.dialects)
	r.serveAllLocked()
}
