package workers

import (
	"cmp"
	"slices"
)

// A line is requests that wait, in the order in which they may go: by class,
// then the tenant that was served least. Among the requests of one tenant the
// Planner decides, or who came first.
type line struct {
	tenants *tenants
	groups  []*group // of those that wait
	byKey   map[groupKey]*group
	waiting int
	spare   []*group // that may be used again
}

// A group is the requests of one tenant and one class, in the order in which
// they came.
type group struct {
	groupKey
	tenant      *tenant
	first, last *waiter
	waiting     int
}

type groupKey struct {
	class int
	id    uint64
}

// enter puts w at the end of its group.
func (l *line) enter(w *waiter) {
	key := groupKey{w.Need.Class, w.Need.Tenant}
	g := l.byKey[key]
	if g == nil {
		g = l.newGroup(key)
	}
	w.group, w.before, w.behind = g, g.last, nil
	if g.last == nil {
		g.first = w
	} else {
		g.last.behind = w
	}
	g.last = w
	g.waiting++
	l.waiting++
	l.tenants.came++
	w.Need.number = l.tenants.came
}

func (l *line) newGroup(key groupKey) *group {
	var g *group
	if n := len(l.spare); n > 0 {
		g, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		g = &group{}
	}
	*g = group{groupKey: key, tenant: l.tenants.get(key.id)}
	g.tenant.groups++
	l.byKey[key] = g
	l.groups = append(l.groups, g)
	return g
}

// leave takes w out.
func (l *line) leave(w *waiter) {
	g := w.group
	if w.before == nil {
		g.first = w.behind
	} else {
		w.before.behind = w.behind
	}
	if w.behind == nil {
		g.last = w.before
	} else {
		w.behind.before = w.before
	}
	w.group, w.before, w.behind = nil, nil, nil
	g.waiting--
	l.waiting--
	if g.first == nil {
		g.tenant.groups--
		delete(l.byKey, g.groupKey)
		i := slices.Index(l.groups, g)
		l.groups = slices.Delete(l.groups, i, i+1)
		l.spare = append(l.spare, g)
	}
}

// front appends to dst the first most requests in order. Those of equal standing
// have the same Rank.
func (l *line) front(dst []*Waiter, most int) []*Waiter {
	slices.SortFunc(l.groups, compareGroups)
	for rank, g := range l.groups {
		for w := g.first; w != nil; w = w.behind {
			if len(dst) == most {
				return dst
			}
			w.Rank = rank
			dst = append(dst, &w.Waiter)
		}
	}
	return dst
}

func compareGroups(a, b *group) int {
	return cmp.Or(cmp.Compare(b.class, a.class), cmp.Compare(a.tenant.served, b.tenant.served), cmp.Compare(a.first.Need.number, b.first.Need.number))
}

// oldest returns the request that waits longest; nil if there is none.
func (l *line) oldest() *waiter {
	var oldest *waiter
	for _, g := range l.groups {
		if oldest == nil || g.first.Need.number < oldest.Need.number {
			oldest = g.first
		}
	}
	return oldest
}

// spared returns the request to refuse if one too many waits: of the lowest class,
// and there of the tenant of whom most wait, the one that came last. So a tenant
// that fills the line keeps nobody else out of it. There must be one.
func (l *line) spared() *waiter {
	g := slices.MinFunc(l.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(b.waiting, a.waiting), cmp.Compare(b.last.Need.number, a.last.Need.number))
	})
	return g.last
}
