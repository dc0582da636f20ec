package main

import (
	"slices"

	"pdrouter/admin"
	"pdrouter/workers"
)

// A roster is how the workers have to change to be those that configuration and
// discovery file name. Workers that an operator added by the API stay, and one
// that is named now belongs to the configuration from then on, as it is.
type roster struct {
	entries []discovered // of those that are named; one that is to be added has no ID yet
	remove  []string
	add     []workers.Spec
	keys    map[string]string

	added, removed, changed []string // for people
}

// newRoster compares what there is with the workers that are named. Ours are
// those that came of the configuration before.
func newRoster(there []workers.Status, ours []discovered, named []workers.Spec) *roster {
	r := &roster{keys: map[string]string{}, added: []string{}, removed: []string{}, changed: []string{}}
	there = slices.DeleteFunc(slices.Clone(there), func(s workers.Status) bool { return s.Removed })
	for _, spec := range named {
		i := slices.IndexFunc(there, func(s workers.Status) bool { return same(s.Worker.Spec, spec) })
		if i < 0 {
			r.entries, r.add = append(r.entries, discovered{spec: spec}), append(r.add, spec)
			r.added = append(r.added, roleAndURL(spec))
			continue
		}
		r.name(there[i].Worker, ours, spec)
	}
	for _, o := range ours {
		is := func(s workers.Status) bool { return s.Worker.ID == o.id }
		gone := !slices.ContainsFunc(named, func(s workers.Spec) bool { return same(s, o.spec) })
		if gone && slices.ContainsFunc(there, is) {
			r.remove, r.removed = append(r.remove, o.id), append(r.removed, roleAndURL(o.spec))
		}
	}
	return r
}

// name takes in that a worker which is there is named. Another key is no reason
// to begin anew with it, another bootstrap server is.
func (r *roster) name(w *workers.Worker, ours []discovered, spec workers.Spec) {
	entry := discovered{id: w.ID, spec: spec}
	before := workers.Spec{APIKey: spec.APIKey} // somebody else's key, unless one is named
	if spec.APIKey != "" && w.Key() != spec.APIKey {
		before.APIKey = ""
	}
	if i := slices.IndexFunc(ours, func(o discovered) bool { return o.id == w.ID }); i >= 0 {
		before = ours[i].spec
	}
	switch {
	case w.BootstrapPort != spec.BootstrapPort || w.BootstrapHost != spec.BootstrapHost:
		entry.id = ""
		r.remove, r.add = append(r.remove, w.ID), append(r.add, spec)
		r.changed = append(r.changed, roleAndURL(spec))
	case before.APIKey != spec.APIKey:
		r.keys[w.ID] = spec.APIKey
		r.changed = append(r.changed, roleAndURL(spec))
	}
	r.entries = append(r.entries, entry)
}

// seat notes the IDs of the workers that were added, in the order of r.add.
func (r *roster) seat(added []*workers.Worker) {
	for i := range r.entries {
		if r.entries[i].id == "" {
			r.entries[i].id, added = added[0].ID, added[1:]
		}
	}
}

// tell says in what the workers differ.
func (r *roster) tell(to *admin.Reload) {
	to.Added, to.Removed, to.Changed = r.added, r.removed, r.changed
}

// same reports whether two specs are of one worker.
func same(a, b workers.Spec) bool { return a.Role == b.Role && a.URL == b.URL }

func roleAndURL(s workers.Spec) string { return s.Role.String() + " " + s.URL }
