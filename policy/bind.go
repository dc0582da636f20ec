package policy

import (
	"math"
	"slices"
	"sort"
	"time"

	"pdrouter/workers"
)

// A storedRun is blocks that an engine stored one after the other, maybe in several
// events: what it computed of one prompt.
type storedRun struct {
	end    uint64 // the engine's name for the last block
	depth  int32  // length of the sequence that ends with it; 0: not known
	length int32  // tokens of the run itself
	size   int32  // tokens of a block
	at     time.Time
}

// An endedLeg has ended, and its prompt is to be joined to the run that the
// engine stored for it.
type endedLeg struct {
	chain  []uint64
	block  int // bytes of a block of the chain
	bytes  int
	tokens int // of the prompt
	cached int // of these; below 0: the engine does not say
	sent   time.Time
	ended  time.Time
}

// A step is a block on the way from a prompt's beginning to a run's end.
type step struct {
	hash, tokens uint64
	depth        int32
}

// runLocked notes what an event has stored, and joins it to the leg that it was
// stored for, if that has ended already.
func (m *mirror) runLocked(at time.Time, e *workers.KVEvent, depth int32) {
	r := storedRun{
		end: e.Hashes[len(e.Hashes)-1], depth: depth, length: int32(min(len(e.Hashes)*e.Size, 1<<30)),
		size: int32(e.Size), at: at,
	}
	for i := len(m.runs) - 1; i >= 0 && !e.Root; i-- {
		if old := m.runs[i]; old.end == e.Parent && old.size == r.size {
			r.length = min(r.length+old.length, 1<<30)
			m.runs = slices.Delete(m.runs, i, i+1)
			break
		}
	}
	if len(m.runs) >= maxRuns {
		m.runs = slices.Delete(m.runs, 0, 1)
	}
	m.runs = append(m.runs, r)
	for i := 0; i < len(m.legs); i++ {
		if l := m.legs[i]; l.fits(&r) && m.joinLocked(&l) {
			m.legs = slices.Delete(m.legs, i, i+1)
			break
		}
	}
}

// end takes in a leg that has ended. The chain is valid until it returns.
func (m *mirror) end(l endedLeg) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ranks == 0 || m.full {
		return
	}
	m.expireLocked(l.ended)
	if l.tokens <= 0 || l.tokens > maxTokens || l.bytes <= 0 {
		m.doubtLocked(l.chain, false)
		return
	}
	if m.joinLocked(&l) || m.allKnownLocked(&l) {
		return
	}
	l.chain = slices.Clone(l.chain)
	if len(m.legs) >= maxLegs {
		m.giveUpLocked()
	}
	m.legs = append(m.legs, l)
}

// maxTokens bounds what is believed to be the length of a prompt.
const maxTokens = 1 << 28

// expireLocked gives up the legs whose run has not come.
func (m *mirror) expireLocked(now time.Time) {
	for len(m.legs) > 0 && now.Sub(m.legs[0].ended) > legTime {
		m.giveUpLocked()
	}
}

// giveUpLocked gives up the oldest leg.
func (m *mirror) giveUpLocked() {
	l := m.legs[0]
	m.legs = slices.Delete(m.legs, 0, 1)
	if !m.allKnownLocked(&l) {
		m.doubtLocked(l.chain, false)
		m.scoreLocked(0)
	}
}

// allKnownLocked reports whether nothing is to be learnt from a leg: it is known
// where each of its blocks ends that is in a whole block of the engine. The
// others are not kept.
func (m *mirror) allKnownLocked(l *endedLeg) bool {
	if m.size == 0 {
		return false
	}
	kept := float64(l.tokens) / float64(m.size)
	kept = math.Floor(kept) * float64(m.size) * float64(l.bytes) / float64(l.tokens)
	whole := min(int(kept/float64(l.block)+1e-6), len(l.chain))
	for _, key := range l.chain[:whole] {
		if _, ok := m.names.find(key, m.size); !ok {
			return false
		}
	}
	if h := m.held.Load(); h != nil {
		h.drop(l.chain[whole:])
	}
	return true
}

// fits reports whether a run is what an engine would store for a leg: it ends
// with the prompt's last whole block, and begins where the cache ended.
func (l *endedLeg) fits(r *storedRun) bool {
	depth := int32(l.tokens) / r.size * r.size
	if depth == 0 || r.at.Before(l.sent) {
		return false
	}
	from := depth
	if l.cached >= 0 {
		from = int32(l.cached) / r.size * r.size
	}
	if r.depth == 0 { // then its length must tell
		return l.cached >= 0 && r.length == depth-from
	}
	return r.depth == depth && depth-r.length <= from
}

// joinLocked joins a leg to the one run that fits it, if there is one.
func (m *mirror) joinLocked(l *endedLeg) bool {
	best, most, ties := -1, -1, 0
	for i := range m.runs {
		r := &m.runs[i]
		if !l.fits(r) || best >= 0 && m.runs[best].end == r.end {
			continue
		}
		switch yes := m.agreesLocked(l, r); {
		case yes < 0:
		case yes > most:
			best, most, ties = i, yes, 0
		case yes == most:
			ties++
		}
	}
	if best < 0 || ties > 0 || m.rivalLocked(l, &m.runs[best]) {
		return false
	}
	r := m.runs[best]
	m.walkLocked(l, &r)
	m.nameLocked(l, &r)
	m.runs = slices.DeleteFunc(m.runs, func(x storedRun) bool { return x.end == r.end })
	m.scoreLocked(1)
	return true
}

// rivalLocked reports whether a run fits another leg that waits as well, so that
// nobody can tell whose it is.
func (m *mirror) rivalLocked(l *endedLeg, r *storedRun) bool {
	return slices.ContainsFunc(m.legs, func(o endedLeg) bool {
		return !slices.Equal(o.chain, l.chain) && o.fits(r) && m.agreesLocked(&o, r) >= 0
	})
}

// agreesLocked returns on how many blocks of a leg's prompt a run agrees with
// what is known of them; below 0: it is another prompt's. At the place where two
// prompts part, a few blocks may seem to be of the other one, because where they
// end was worked out and not seen.
func (m *mirror) agreesLocked(l *endedLeg, r *storedRun) int {
	if !m.walkLocked(l, r) {
		return -1
	}
	agreed, not := 0, 0
	for _, s := range m.path {
		yes, no := m.names.agree(s.tokens, l.chain)
		agreed, not = agreed+yes, not+no
	}
	if not > 2+agreed/8 {
		return -1
	}
	return agreed
}

// walkLocked makes m.path the way to a run's end, from the prompt's beginning
// or from the first block that is known of. Its depths are those that the run
// has if it is the leg's. It reports false if a block on the way is gone.
func (m *mirror) walkLocked(l *endedLeg, r *storedRun) bool {
	m.path = m.path[:0]
	depth := int32(l.tokens) / r.size * r.size
	for hash := r.end; depth > 0 && len(m.path) <= len(m.stored); depth -= r.size {
		b, there := m.stored[hash]
		if !there {
			return false
		}
		m.path = append(m.path, step{hash, b.tokens, depth})
		if b.first {
			break
		}
		hash = b.parent
	}
	slices.Reverse(m.path)
	return true
}

// nameLocked notes where each block of a leg's prompt ends, on the way that
// walkLocked has made. What has not been stored as a whole block is not held.
func (m *mirror) nameLocked(l *endedLeg, r *storedRun) {
	for _, s := range m.path {
		if b := m.stored[s.hash]; b.depth == 0 {
			b.depth = s.depth
			m.stored[s.hash] = b
		}
	}
	var bytes, tokens float64 // up to where the blocks' ends are known
	known := true
	kept, gone := m.keys[:0], []uint64(nil)
	for i, key := range l.chain {
		end := float64((i + 1) * l.block)
		if p, ok := m.names.find(key, r.size); ok && m.onPath(p) {
			if kept = append(kept, key); known {
				bytes, tokens = end, float64(p.exact)
			}
			continue
		}
		known = false
		exact := tokens + (end-bytes)*(float64(l.tokens)-tokens)/max(float64(l.bytes)-bytes, 1)
		at := sort.Search(len(m.path), func(i int) bool { return float64(m.path[i].depth) >= exact-1e-6 })
		if at == len(m.path) {
			gone = append(gone, key)
			continue
		}
		s := m.path[at]
		m.names.set(key, i, r.size, ending{s.tokens, s.depth, float32(exact)})
		kept = append(kept, key)
	}
	m.keys = kept
	if h := m.held.Load(); h != nil {
		h.hold(kept)
		h.drop(gone)
	}
}

// onPath reports whether an ending is on the way that walkLocked has made.
func (m *mirror) onPath(p ending) bool {
	i := sort.Search(len(m.path), func(i int) bool { return m.path[i].depth >= p.depth })
	return i < len(m.path) && m.path[i].tokens == p.tokens
}
