package policy

import (
	"time"

	"pdrouter/workers"
)

// Manual remembers where a routing key or session was sent, and sends it there
// again for as long as that worker may be leased. A new key goes where
// Config.Assignment says, a request without one where the rest goes. What names a
// user or an application is no such key: there may be one for all requests, and
// no load moves a key away. At most MaxKeys are remembered, each until it has not
// been used for MaxIdle.
type Manual struct {
	cfg  Config
	dice *dice
	rest Picker // of requests without a key, and of new ones if these are delegated
	keys map[uint64]*assigned
	old  assigned // ends of the list by last use: newer is the oldest
}

// An assigned key.
type assigned struct {
	key          uint64
	worker       *workers.Worker
	used         time.Time
	older, newer *assigned
}

func newManual(cfg Config, d *dice) *Manual {
	m := &Manual{cfg: cfg, dice: d, rest: Random{d}, keys: map[uint64]*assigned{}}
	m.old.older, m.old.newer = &m.old, &m.old
	return m
}

// Pick implements Picker. It allocates for a key that is new.
func (m *Manual) Pick(need *workers.Need, loads []*workers.Load, in partners) int {
	m.expire(need.At)
	if need.Sticky == 0 || !need.Named {
		m.cfg.Branches.count(NoKey)
		return m.rest.Pick(need, loads, in)
	}
	a := m.keys[need.Sticky]
	branch := KeyMoved
	if a == nil {
		branch = KeyNew
		m.cfg.Branches.add(1)
		if len(m.keys) >= m.cfg.MaxKeys {
			m.drop(m.old.newer)
		}
		a = &assigned{key: need.Sticky}
		m.keys[a.key] = a
	} else {
		a.older.newer, a.newer.older = a.newer, a.older
	}
	a.used = need.At
	a.older, a.newer = m.old.older, &m.old
	a.older.newer, a.newer.older = a, a
	for i, l := range loads {
		if l.Worker == a.worker && in.have(i) {
			m.cfg.Branches.count(KeyThere)
			return i
		}
	}
	m.cfg.Branches.count(branch)
	at := m.assign(need, loads, in)
	a.worker = loads[at].Worker
	return at
}

// assign returns where a new key goes.
func (m *Manual) assign(need *workers.Need, loads []*workers.Load, in partners) int {
	switch m.cfg.Assignment {
	case "min_load":
		return lightest(loads, in)
	case "min_group":
		return m.fewestKeys(loads, in)
	case "delegate":
		return m.rest.Pick(need, loads, in)
	default:
		return Random{m.dice}.Pick(need, loads, in)
	}
}

// fewestKeys returns the place of the worker with the fewest keys.
func (m *Manual) fewestKeys(loads []*workers.Load, in partners) int {
	count := map[*workers.Worker]int{}
	for _, a := range m.keys {
		count[a.worker]++
	}
	best := -1
	for i, l := range loads {
		if in.have(i) && (best < 0 || count[l.Worker] < count[loads[best].Worker]) {
			best = i
		}
	}
	return best
}

// expire forgets the keys that have not been used for too long.
func (m *Manual) expire(now time.Time) {
	for a := m.old.newer; a != &m.old && now.Sub(a.used) > m.cfg.MaxIdle; a = m.old.newer {
		m.drop(a)
	}
}

func (m *Manual) drop(a *assigned) {
	a.older.newer, a.newer.older = a.newer, a.older
	delete(m.keys, a.key)
	m.cfg.Branches.add(-1)
}
