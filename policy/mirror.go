package policy

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pdrouter/workers"
)

// A mirror is what one worker's engine says that it holds. It keeps the
// worker's set (held) true to that: a block of ours is held if, and as long as,
// the engine block is in which it ends.
//
// Which one that is, is learnt from prefill legs. When one has ended, its
// engine has stored a sequence of blocks that is as long as the leg's prompt
// was, and no other: they are the same (bind.go). Tokens are taken to lie
// evenly in the text between two ends that are known.
type mirror struct {
	names *names

	held  atomic.Pointer[held] // nil: the policy has not seen the worker yet
	keeps atomic.Int64         // blocks of ours that the engine is believed to keep, where it did not say
	room  atomic.Int64         // engine blocks that may be noted
	exact atomic.Bool          // what it holds is known, and not to be guessed

	mu     sync.Mutex // guards the rest; taken before that of names and of held
	ranks  uint64     // that are followed
	full   bool       // there are more engine blocks than may be noted
	stored map[uint64]stored
	size   int32       // tokens of an engine block
	runs   []storedRun // of late, the oldest first
	legs   []endedLeg  // whose run is not known yet, the oldest first
	doubts []doubt     // blocks of ours of which the engine has not said that it has them, the oldest first
	joined float64     // share of legs whose run was found, of late
	tries  float64     // legs of which it is the share

	keys []uint64 // scratch
	path []step
}

// A doubt is a block of ours that is believed to be held until too many others
// are. Hard: even if it is known where it ends, because events were missed.
type doubt struct {
	key  uint64
	hard bool
}

// A stored block of an engine.
type stored struct {
	tokens uint64 // names the sequence that ends with it
	parent uint64 // the engine's name for the block before it
	ranks  uint64 // that have it
	depth  int32  // length of the sequence; 0: not known
	root   bool   // it is none, but what first blocks come after
	first  bool   // nothing is known of what comes before it
}

const (
	maxRuns = 128
	maxLegs = 128

	// legTime is how long after a leg's end its engine may still tell what it
	// stored for it. Engines do within milliseconds.
	legTime = 2 * time.Second

	// enoughJoined is the share of legs whose run must be found for the set to
	// be taken for exact, of so many legs of late.
	enoughJoined = 0.5
	joinedOf     = 16
)

func newMirror(n *names, room int) *mirror {
	m := &mirror{names: n, stored: map[uint64]stored{}}
	m.keeps.Store(int64(room))
	m.room.Store(int64(room))
	return m
}

// follow begins to believe a rank.
func (m *mirror) follow(rank int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.held.Load(); h != nil && m.ranks == 0 {
		m.doubtLocked(h.appendOldest(nil), false)
	}
	m.ranks |= 1 << rank
	m.judgeLocked()
}

// lose forgets what a rank held. Our blocks are still believed to be there, as
// many as the engine is believed to keep: they may be.
func (m *mirror) lose(rank int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ranks &^= 1 << rank
	m.full = false
	m.dropRankLocked(rank, false)
	if h := m.held.Load(); h != nil {
		m.doubts = nil
		m.doubtLocked(h.appendOldest(nil), true)
	}
	m.judgeLocked()
}

// forget forgets our blocks, of which there are others now.
func (m *mirror) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.legs, m.doubts = nil, nil
}

// doubt says that blocks of ours are believed to be held, but not by what the
// engine said.
func (m *mirror) doubt(keys []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doubtLocked(keys, false)
}

// tell takes in an event.
func (m *mirror) tell(rank int, at time.Time, e *workers.KVEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ranks&(1<<rank) == 0 || m.full {
		return
	}
	m.expireLocked(at)
	switch e.Kind {
	case workers.KVStored:
		m.storeLocked(rank, at, e)
	case workers.KVRemoved:
		m.removeLocked(rank, e.Hashes)
	case workers.KVCleared:
		m.dropRankLocked(rank, true)
	}
}

// storeLocked notes blocks that follow one another.
func (m *mirror) storeLocked(rank int, at time.Time, e *workers.KVEvent) {
	if len(e.Tokens) == 0 {
		return // it cannot be told what they are
	}
	before, parent := stored{tokens: noTokens, root: true}, uint64(0)
	if !e.Root {
		before, parent = m.parentLocked(rank, e.Parent), e.Parent
	}
	m.keys, m.size = m.keys[:0], int32(e.Size)
	for i, hash := range e.Hashes {
		b := stored{tokens: after(before.tokens, e, i), parent: parent, ranks: 1 << rank}
		if before.depth > 0 || before.root {
			b.depth = min(before.depth+m.size, math.MaxInt32/2)
		}
		if old, there := m.stored[hash]; there { // it keeps its name as long as it is there
			b.tokens, b.ranks = old.tokens, b.ranks|old.ranks
			b.depth = max(b.depth, old.depth)
		}
		m.stored[hash] = b
		m.keys = m.names.append(m.keys, b.tokens)
		before, parent = b, hash
	}
	if int64(len(m.stored)) > m.room.Load() {
		m.overflowLocked()
		return
	}
	if h := m.held.Load(); h != nil {
		h.hold(m.keys)
	}
	m.runLocked(at, e, before.depth)
}

// parentLocked returns the block before one that is stored. One that was stored
// before we listened is noted in the place of all that come before it, too: its
// depth is not known, and it has a name that only says that it is that block.
func (m *mirror) parentLocked(rank int, hash uint64) stored {
	b, there := m.stored[hash]
	if !there {
		b = stored{tokens: grown(^uint64(noTokens), hash), first: true}
	}
	if bit := uint64(1) << rank; b.ranks&bit == 0 {
		b.ranks |= bit
		m.stored[hash] = b
	}
	return b
}

// after returns the sequence of tokens with which block i of an event ends,
// given that which it continues.
func after(tokens uint64, e *workers.KVEvent, i int) uint64 {
	if len(e.Extra) > 0 && e.Extra[i] != 0 {
		tokens = grown(tokens, e.Extra[i])
	}
	for _, id := range e.Tokens[i*e.Size : (i+1)*e.Size] {
		tokens = grown(tokens, uint64(id))
	}
	return tokens
}

// removeLocked notes that a rank has blocks no longer.
func (m *mirror) removeLocked(rank int, hashes []uint64) {
	m.keys = m.keys[:0]
	for _, hash := range hashes {
		b, there := m.stored[hash]
		if !there {
			continue
		}
		if b.ranks &^= 1 << rank; b.ranks != 0 {
			m.stored[hash] = b
			continue
		}
		delete(m.stored, hash)
		m.keys = m.names.append(m.keys, b.tokens)
	}
	if h := m.held.Load(); h != nil {
		h.drop(m.keys)
	}
}

// dropRankLocked forgets all blocks of a rank, and if they are gone indeed,
// ours with them.
func (m *mirror) dropRankLocked(rank int, gone bool) {
	m.runs = m.runs[:0]
	m.keys = m.keys[:0]
	for hash, b := range m.stored {
		if b.ranks &^= 1 << rank; b.ranks != 0 {
			m.stored[hash] = b
			continue
		}
		delete(m.stored, hash)
		if gone {
			m.keys = m.names.append(m.keys, b.tokens)
		}
	}
	if len(m.stored) == 0 {
		m.stored = map[uint64]stored{} // gives its memory back
	}
	h := m.held.Load()
	switch {
	case h == nil || !gone:
	case len(m.stored) == 0:
		h.clear()
		m.doubts = nil
	default:
		h.drop(m.keys)
	}
}

// overflowLocked gives up an engine that holds more blocks than may be noted.
func (m *mirror) overflowLocked() {
	m.full = true
	m.stored, m.runs, m.legs = map[uint64]stored{}, nil, nil
	if h := m.held.Load(); h != nil {
		m.doubts = nil
		m.doubtLocked(h.appendOldest(nil), true)
	}
	m.judgeLocked()
}

// doubtLocked notes blocks of ours that are believed to be held without the
// engine having said so. There are no more of them than it is believed to keep.
func (m *mirror) doubtLocked(keys []uint64, hard bool) {
	h := m.held.Load()
	if h == nil {
		return
	}
	for _, key := range keys {
		m.doubts = append(m.doubts, doubt{key, hard})
	}
	n := max(len(m.doubts)-int(min(m.keeps.Load(), m.room.Load())), 0)
	gone := m.keys[:0]
	for _, d := range m.doubts[:n] {
		if _, known := m.names.find(d.key, m.size); d.hard || !known {
			gone = append(gone, d.key)
		}
	}
	m.keys = gone
	m.doubts = slices.Delete(m.doubts, 0, n)
	h.drop(gone)
}

// judgeLocked decides whether the set is exact.
func (m *mirror) judgeLocked() {
	m.exact.Store(m.ranks != 0 && !m.full && m.joined >= enoughJoined)
}

// scoreLocked takes in whether a leg's run was found.
func (m *mirror) scoreLocked(found float64) {
	m.tries = min(m.tries+1, joinedOf)
	m.joined += (found - m.joined) / m.tries
	m.judgeLocked()
}
