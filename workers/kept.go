package workers

import "time"

// keep keeps a decode worker for the first request that others have passed for
// long: nobody else is given it until that one has room there, or has left the
// line. It keeps one at most, that which has least to do.
func (q *queue) keep(seen []*Waiter, pools []Pool, now time.Time) {
	if q.kept != nil {
		return
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

// leaveLine takes w out of the line. A decode worker that was kept for it is
// given to whoever comes, of this model or another.
func (q *queue) leaveLine(w *waiter) {
	if q.kept != nil && q.kept.kept == w.Need.number {
		q.kept.kept, q.kept = 0, nil
	}
	q.line.leave(w)
}
