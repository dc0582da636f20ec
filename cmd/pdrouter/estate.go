package main

import (
	"slices"

	"pdrouter/health"
	"pdrouter/workers"

	"go.uber.org/zap"
)

// An estate is what a daemon leaves to its successor, beside its sockets and
// what is known of the workers' caches and speeds.
type estate struct {
	Names    workers.Names
	Added    []workers.Spec // workers that the configuration does not name, or not so
	Leases   workers.Estate
	Breakers []health.HeldBreaker
}

// roster returns what d leaves of its workers: what a successor has to know
// before it looks at them.
func (d *daemon) roster() *estate {
	e := &estate{Names: d.registry.Names()}
	fleet, _ := d.current.Load().fleet() // what is wrong with the file keeps the successor from starting
	for _, s := range d.registry.Statuses() {
		if spec := asNamed(s.Worker, fleet.APIKey); !s.Removed && !slices.Contains(fleet.Specs, spec) {
			e.Added = append(e.Added, spec)
		}
	}
	return e
}

// asNamed returns w as who named it could have, if it has the key of all or its
// own.
func asNamed(w *workers.Worker, common string) workers.Spec {
	spec := w.Spec
	if spec.APIKey = w.Key(); spec.APIKey == common {
		spec.APIKey = ""
	}
	return spec
}

// named returns the workers of those specs that are there; some were removed
// before an upgrade.
func (d *daemon) named(specs []workers.Spec) (all []discovered) {
	there := d.registry.Statuses()
	for _, spec := range specs {
		if i := slices.IndexFunc(there, func(s workers.Status) bool { return same(s.Worker.Spec, spec) }); i >= 0 {
			all = append(all, discovered{there[i].Worker.ID, spec})
		}
	}
	return all
}

func workerName(s workers.Spec) workers.Name { return workers.Name{Role: s.Role, URL: s.URL} }

// takeWorkers adds and removes workers as was done before.
func (d *daemon) takeWorkers(e *estate) {
	var remove []string
	var add []workers.Spec
	there := map[workers.Name]workers.Status{}
	for _, s := range d.registry.Statuses() {
		if !s.Removed {
			there[workerName(s.Worker.Spec)] = s
		}
	}
	for _, n := range e.Names.Removed {
		if s, is := there[n]; is {
			remove = append(remove, s.Worker.ID)
		}
	}
	for _, spec := range e.Added {
		s, is := there[workerName(spec)]
		if is && asNamed(s.Worker, d.cfg.Workers.APIKey) == spec {
			continue
		}
		if is {
			remove = append(remove, s.Worker.ID)
		}
		add = append(add, spec)
	}
	if len(remove)+len(add) == 0 {
		return
	}
	if _, err := d.registry.Change(remove, add); err != nil {
		d.log.Warn("workers that were added or removed before the upgrade are as the configuration has them", zap.Error(err))
	}
}

// bequeath returns all that d leaves. Its requests share the workers with those of
// the successor from now on.
func (d *daemon) bequeath() *estate {
	e := d.roster()
	e.Leases, e.Breakers = d.registry.Leave(), d.judge.Leave()
	return e
}

// inherit takes in what was left.
func (d *daemon) inherit(e *estate) {
	d.takeWorkers(e)
	d.judge.Inherit(e.Breakers)
	d.registry.Inherit(e.Leases)
}
