package policy

import (
	"maps"
	"slices"
	"sync"
	"time"

	"pdrouter/workers"
)

// mirrors are the mirrors of the workers whose KV events are followed.
type mirrors struct {
	names *names
	room  int

	mu     sync.Mutex // guards the rest; nothing is locked under it
	bySeat map[int]*mirror
}

func newMirrors(cfg Config) mirrors {
	return mirrors{names: newNames(namesFor(cfg.MaxBlocks)), room: cfg.MaxBlocks, bySeat: map[int]*mirror{}}
}

// namesFor returns of how many blocks it is remembered where they end, if the
// index has so many: a block's place takes some 160 bytes, and is needed once for
// all workers.
func namesFor(blocks int) int { return blocks / 8 }

// at returns the mirror of the worker in a seat; nil if it is not followed.
func (s *mirrors) at(seat int) *mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bySeat[seat]
}

// open returns the mirror of the worker in a seat.
func (s *mirrors) open(seat int) *mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.bySeat[seat]
	if m == nil {
		m = newMirror(s.names, s.room)
		s.bySeat[seat] = m
	}
	return m
}

// attach joins the book of a worker to its mirror, if it has one.
func (s *mirrors) attach(seat int, b *book) {
	if m := s.at(seat); m != nil {
		m.held.Store(b.held)
		b.mirror.Store(m)
	}
}

// gone forgets the mirror of a seat.
func (s *mirrors) gone(seat int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bySeat, seat)
}

// forget forgets where blocks of ours end: they have another length now. What
// engines hold is still known.
func (s *mirrors) forget() {
	s.names.clear()
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.bySeat))
	s.mu.Unlock()
	for _, m := range all {
		m.forget()
	}
}

// KVFollowed implements workers.KVSink.
func (c *CacheAware) KVFollowed(seat, rank int) {
	m := c.mirrors.open(seat)
	if b := c.at(seat); b != nil {
		c.mirrors.attach(seat, b)
	}
	m.follow(rank)
}

// KVTold implements workers.KVSink.
func (c *CacheAware) KVTold(seat, rank int, at time.Time, e *workers.KVEvent) {
	if m := c.mirrors.at(seat); m != nil {
		m.tell(rank, at, e)
	}
}

// KVLost implements workers.KVSink.
func (c *CacheAware) KVLost(seat, rank int) {
	if m := c.mirrors.at(seat); m != nil {
		m.lose(rank)
	}
}

// exact reports whether what the worker holds is known from its KV events.
func (b *book) exact() bool {
	m := b.mirror.Load()
	return m != nil && m.exact.Load()
}
