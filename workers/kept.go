package workers

import (
	"slices"
	"time"
)

// keep keeps a decode worker for the first request that others have passed for
// long: nobody else is given it until that one has room there. It keeps one at
// most, that which has least to do, and lets go of it when the request has gone.
func (q *queue) keep(seen []*Waiter, pools []Pool, now time.Time) {
	if q.kept != nil {
		if slices.ContainsFunc(seen, func(w *Waiter) bool { return w.Need.number == q.kept.kept }) {
			return
		}
		q.letGo()
	}
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

// letGo gives the decode worker that is kept to whoever comes.
func (q *queue) letGo() {
	if q.kept != nil {
		q.kept.kept, q.kept = 0, nil
	}
}
