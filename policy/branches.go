package policy

import "sync/atomic"

// A Branch is why a choice for one leg fell as it did.
type Branch int

// The branches: of consistent_hashing, prefix_hash and manual.
const (
	ByKey         Branch = iota // by the hash of its key
	WithoutKey                  // it has nothing to hash, and went to the least loaded worker
	RingOwner                   // to the worker whose prompt it is
	LoadWalk                    // that has too much to do, and another was next
	WithoutPrompt               // it has no beginning to hash, and went to the least loaded worker
	KeyThere                    // to the worker that its key is remembered with
	KeyMoved                    // that cannot be leased, and the key is remembered with another now
	KeyNew                      // the key was not known
	NoKey                       // it has no key, and went where the rest goes
	branches
)

// Branches count choices. Their zero value is ready for use; they may be read by
// any goroutine at any time.
type Branches struct {
	counts [branches]atomic.Uint64
	keys   atomic.Int64
}

// count counts a choice; those of nobody are not counted.
func (b *Branches) count(x Branch) {
	if b != nil {
		b.counts[x].Add(1)
	}
}

// add counts keys that manual remembers now, or forgets.
func (b *Branches) add(keys int64) {
	if b != nil {
		b.keys.Add(keys)
	}
}

// Count returns how many choices fell so.
func (b *Branches) Count(x Branch) uint64 { return b.counts[x].Load() }

// Keys returns how many keys manual remembers, those of either leg.
func (b *Branches) Keys() int64 { return b.keys.Load() }
