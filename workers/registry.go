package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"pdrouter/exchange"
)

// ErrUnknownModel reports a model that no worker serves, ready or not.
var ErrUnknownModel = errors.New("no worker serves this model")

// A NoneError reports that no pair can be leased, because Role has no ready
// worker, or, with Mismatch, because the ready ones do not fit one another.
type NoneError struct {
	Role     Role
	Mismatch bool
}

// Error implements error.
func (e *NoneError) Error() string {
	if e.Mismatch {
		return "no prefill and decode worker fit one another"
	}
	return fmt.Sprintf("no %s worker is ready", e.Role)
}

// A Registry holds the workers and leases them in pairs.
type Registry struct {
	cfg     Config
	chooser Chooser
	observe func(Event)
	all     []*Worker // in the order of the configuration; never changes

	mu    sync.Mutex        // guards the following, and every worker's load, state, facts and reason
	pools map[string][]Pool // by model; "" holds all
	clock uint64            // counts leases
}

// NewRegistry returns a Registry of the workers in cfg, which has been
// validated. Every worker is unready until Run has looked at it. Observe is
// called with every change of state, outside any lock, by Run's goroutines.
func NewRegistry(cfg Config, conns exchange.Config, chooser Chooser, observe func(Event)) (*Registry, error) {
	r := &Registry{cfg: cfg, chooser: chooser, observe: observe, pools: map[string][]Pool{}}
	count := map[Role]int{}
	for _, spec := range cfg.Specs {
		peer, err := exchange.NewPeer(spec.URL, conns)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", spec.Role, spec.URL, err)
		}
		if spec.APIKey == "" {
			spec.APIKey = cfg.APIKey
		}
		w := &Worker{Spec: spec, ID: fmt.Sprintf("%s-%d", spec.Role, count[spec.Role]), Peer: peer, reason: "not looked at yet"}
		w.load.Worker = w
		count[spec.Role]++
		r.all = append(r.all, w)
	}
	return r, nil
}

// Close closes the connections that are not in use.
func (r *Registry) Close() {
	for _, w := range r.all {
		w.Peer.Close()
	}
}

// Lease leases a pair for need, or says why there is none. It does not wait.
func (r *Registry) Lease(ctx context.Context, need Need) (Pair, error) {
	if err := ctx.Err(); err != nil {
		return Pair{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pools := r.pools[need.Model]
	if len(pools) == 0 {
		return Pair{}, r.whyNoneLocked(need.Model)
	}
	c := r.chooser.Choose(need, pools)
	pool := &pools[c.Pool]
	return Pair{
		Dialect: pool.Dialect,
		Prefill: r.grantLocked(pool.Prefill[c.Prefill]),
		Decode:  r.grantLocked(pool.Decode[c.Decode]),
	}, nil
}

func (r *Registry) grantLocked(l *Load) *Lease {
	r.clock++
	l.InFlight++
	l.Picked = r.clock
	return &Lease{Worker: l.Worker, Facts: l.Worker.facts, registry: r}
}

func (r *Registry) release(w *Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.load.InFlight--
	if w.load.InFlight < 0 {
		panic("workers: " + w.ID + " has less than no request under way")
	}
}

// Dialects returns the dialects in which model may be served now; with the
// empty model, all that are spoken.
func (r *Registry) Dialects(model string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, pool := range r.pools[model] {
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

// Statuses returns the status of every worker, in the order of the
// configuration.
func (r *Registry) Statuses() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Status, len(r.all))
	for i, w := range r.all {
		out[i] = Status{Worker: w, State: w.state, Reason: w.reason, InFlight: w.load.InFlight}
		if w.facts != nil {
			out[i].Facts = *w.facts
		}
	}
	return out
}

// whyNoneLocked returns the error for a model that has no pool.
func (r *Registry) whyNoneLocked(model string) error {
	ready := [2]int{}
	known := model == "" || len(r.pools[""]) == 0
	for _, w := range r.all {
		if w.facts != nil && w.facts.serves(model) {
			known = true
		}
		if w.state == Ready && w.facts.serves(model) {
			ready[w.Role]++
		}
	}
	switch {
	case !known:
		return ErrUnknownModel
	case ready[Prefill] == 0:
		return &NoneError{Role: Prefill}
	case ready[Decode] == 0:
		return &NoneError{Role: Decode}
	default:
		return &NoneError{Mismatch: true}
	}
}

// rebuildLocked makes the pools anew from the workers that are ready. A pool
// is made for every model, so that leasing is one look-up.
func (r *Registry) rebuildLocked() {
	r.pools = map[string][]Pool{}
	models := map[string]bool{"": true}
	for _, w := range r.all {
		if w.state == Ready {
			for _, m := range w.facts.Models {
				models[m] = true
			}
		}
	}
	for m := range models {
		if pools := r.poolsOfLocked(m); len(pools) > 0 {
			r.pools[m] = pools
		}
	}
}

func (r *Registry) poolsOfLocked(model string) []Pool {
	var classes []string
	byClass := map[string]*Pool{}
	for _, w := range r.all {
		if w.state != Ready || !w.facts.serves(model) {
			continue
		}
		class := w.facts.class()
		pool := byClass[class]
		if pool == nil {
			pool = &Pool{Dialect: w.facts.Dialect}
			byClass[class] = pool
			classes = append(classes, class)
		}
		if w.Role == Prefill {
			pool.Prefill = append(pool.Prefill, &w.load)
		} else {
			pool.Decode = append(pool.Decode, &w.load)
		}
	}
	var pools []Pool
	for _, class := range classes {
		if p := byClass[class]; len(p.Prefill) > 0 && len(p.Decode) > 0 {
			pools = append(pools, *p)
		}
	}
	return pools
}
