package health

import (
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"pdrouter/workers"
)

// A HeldBreaker is a breaker that is not closed, as one process leaves it to the
// next.
type HeldBreaker struct {
	Worker workers.Name
	Decode *workers.Name // of a pair, whose prefill worker is Worker

	Until    time.Time // when it may be tried; past: it is being tried
	Openings int       // since it was closed: how far its open time has grown
	Last     bool      // it opened as the last of its role
	Why      string
}

// Breakers that are closed are not left: what they have counted is a matter of
// --cb-window-duration-secs, and is counted anew.

// Leave returns the breakers that are not closed.
func (j *Judge) Leave() []HeldBreaker {
	var all []HeldBreaker
	for _, s := range j.registry.Statuses() {
		d := j.ward(s.Worker)
		if h, held := d.breaker.leave(); held {
			h.Worker = nameOf(s.Worker)
			all = append(all, h)
		}
		for _, p := range d.allPairs() {
			if h, held := p.breaker.leave(); held {
				decode := nameOf(p.decode)
				h.Worker, h.Decode = nameOf(p.prefill), &decode
				all = append(all, h)
			}
		}
	}
	return all
}

func nameOf(w *workers.Worker) workers.Name { return workers.Name{Role: w.Role, URL: w.URL} }

// Inherit opens breakers as they were left. Of workers that are not there any
// more nothing is known.
func (j *Judge) Inherit(held []HeldBreaker) {
	if j.cfg.DisableBreakers {
		return
	}
	there := map[workers.Name]*workers.Worker{}
	for _, s := range j.registry.Statuses() {
		if !s.Removed {
			there[nameOf(s.Worker)] = s.Worker
		}
	}
	for _, h := range held {
		w := there[h.Worker]
		if w == nil {
			continue
		}
		d := j.ward(w)
		b := d.breaker
		if h.Decode != nil {
			decode := there[*h.Decode]
			if decode == nil {
				continue
			}
			b = j.makePair(d, decode).breaker
		}
		b.inherit(h)
		b.out.flush()
	}
}

// leave returns b, and whether it is not closed.
func (b *breaker) leave() (h HeldBreaker, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return HeldBreaker{Until: b.until, Openings: b.openings, Last: b.last, Why: b.why}, b.state != gobreaker.StateClosed
}

// inherited begins the reason of a breaker that was opened by another process.
const inherited = "as before the upgrade: "

// inherit opens b as it was left.
func (b *breaker) inherit(h HeldBreaker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != gobreaker.StateClosed {
		return // it has seen for itself
	}
	b.why = inherited + strings.TrimPrefix(h.Why, inherited)
	b.movedLocked("", b.state, gobreaker.StateOpen)
	b.openings, b.last, b.trying = max(h.Openings, 1), h.Last, false
	left := min(time.Until(h.Until)-pastExpiry, max(b.cfg.OpenTime, longestOpen))
	b.shutLocked(max(left, 1), b.why)
}
