package workers

import (
	"testing"
	"time"
)

// crowded returns a registry of 128 workers whose decode engines have so many
// requests each.
func crowded(t testing.TB, claims int) *Registry {
	t.Helper()
	r := fleet(t, 64, first{})
	for _, w := range r.all {
		if w.Role != Decode {
			continue
		}
		h, now := newHabits(), time.Now()
		w.ledger.advance(now)
		rep := unknown()
		rep.At, rep.KVCapacity, rep.KVUsed, rep.BlockSize = now, 1e9, 50e3, 16
		w.ledger.report(&rep, now)
		for range claims {
			c := &claim{}
			w.ledger.grant(c, need{habits: h, bytes: 4000}, now)
			w.ledger.begin(c, now)
		}
	}
	return r
}

// What is read for people must not make requests wait: of each worker only what
// is known is told, and nothing is worked out that takes long.
func TestStatusesLookAtNoLedger(t *testing.T) {
	r := crowded(t, 4)
	for _, w := range r.all {
		w.ledger.looked = -1e9
	}
	for _, s := range r.Statuses() {
		if l := &s.Worker.ledger; s.Worker.Role == Decode && (l.looked != -1e9 || !(s.KVSpace.Reserved > 0)) {
			t.Fatalf("%s was looked at (%v), or has %v reserved, want what was known before", s.Worker.ID, l.looked, s.KVSpace.Reserved)
		}
	}
}

// BenchmarkStatuses is what a scrape asks for.
func BenchmarkStatuses(b *testing.B) {
	for name, stale := range map[string]bool{"just looked": false, "not looked for long": true} {
		b.Run(name, func(b *testing.B) {
			r := crowded(b, 400)
			b.ReportAllocs()
			for b.Loop() {
				for _, w := range r.all {
					if stale {
						w.ledger.looked = -1e9
					}
				}
				r.Statuses()
			}
		})
	}
}
