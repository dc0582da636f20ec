package workers

import (
	"slices"
	"time"
)

// keep keeps a decode worker for the first request that others have passed for
// long: nobody else is given it until that one has room there, or has left the
// line. It keeps one at most, that which has least to do. One that may not be
// leased any more, because it drains or is barred, is of no use to anybody, and
// another is kept in its place.
func (q *queue) keep(seen []*Waiter, pools []Pool, now time.Time) {
	if q.kept != nil && hasDecode(pools, q.kept) {
		return
	}
	q.letGo()
	for _, w := range seen {
		if now.Sub(w.Since) < overtaking {
			continue
		}
		if short, is := shortage(pools, &w.Need); !is || short != OfDecode {
			continue
		}
		for i := range pools {
			for _, l := range pools[i].Decode {
				if l.kept == 0 && (q.kept == nil || l.before(q.kept)) {
					q.kept = l
				}
			}
		}
		if q.kept != nil {
			q.kept.kept = w.Need.number
		}
		return
	}
}

// leaveLine takes w out of the line. A decode worker that was kept for it is
// given to whoever comes, of this model or another.
func (q *queue) leaveLine(w *waiter) {
	if q.kept != nil && q.kept.kept == w.Need.number {
		q.letGo()
	}
	q.line.leave(w)
}

// letGo gives the decode worker that is kept, if one is, to whoever comes.
func (q *queue) letGo() {
	if q.kept != nil {
		q.kept.kept, q.kept = 0, nil
	}
}

func hasDecode(pools []Pool, l *Load) bool {
	return slices.ContainsFunc(pools, func(p Pool) bool { return slices.Contains(p.Decode, l) })
}
