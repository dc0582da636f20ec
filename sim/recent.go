package sim

// maxRecent is how many keys a recent remembers.
const maxRecent = 1 << 16

// recent is a set that forgets its oldest keys, so that an engine under load
// for days does not grow.
type recent[K comparable] struct {
	set  map[K]struct{}
	ring []K
	next int
}

// add adds k, and reports whether it was there.
func (r *recent[K]) add(k K) bool {
	if r.has(k) {
		return true
	}
	if r.set == nil {
		r.set = map[K]struct{}{}
	}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, k)
	} else {
		delete(r.set, r.ring[r.next])
		r.ring[r.next] = k
		r.next = (r.next + 1) % maxRecent
	}
	r.set[k] = struct{}{}
	return false
}

func (r *recent[K]) has(k K) bool {
	_, ok := r.set[k]
	return ok
}
