package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// fleet returns a registry of as many ready workers of either role.
func fleet(t testing.TB, n int, chooser Chooser) *Registry {
	t.Helper()
	cfg := DefaultConfig()
	for i := range n {
		cfg.Specs = append(cfg.Specs,
			Spec{Role: Prefill, URL: fmt.Sprintf("http://10.0.1.%d:1", i)},
			Spec{Role: Decode, URL: fmt.Sprintf("http://10.0.2.%d:1", i)})
	}
	return readyRegistry(t, cfg, chooser)
}

// drop ends both leases of a pair.
func drop(p *Pair) {
	p.Prefill.Done(nil)
	p.Decode.Done(nil)
}

// names returns the IDs of a pair's workers.
func names(p *Pair) string { return p.Prefill.Worker.ID + " " + p.Decode.Worker.ID }

// worker returns the worker with that ID.
func worker(t testing.TB, r *Registry, id string) *Worker {
	t.Helper()
	s, ok := r.Get(id)
	if !ok {
		t.Fatalf("there is no worker %s", id)
	}
	return s.Worker
}

// firstFit is a Chooser that takes the first pair that fits, and checks what it
// is promised about pools.
type firstFit struct{ t testing.TB }

func (f firstFit) Choose(_ Need, pools []Pool) Choice {
	for n := range pools {
		p := &pools[n]
		for i := range p.Prefill {
			fits := false
			for j := range p.Decode {
				fits = fits || p.Fits(i, j)
			}
			if !fits {
				f.t.Errorf("prefill worker %s fits nobody", p.Prefill[i].Worker.ID)
			}
		}
		for j := range p.Decode {
			fits := false
			for i := range p.Prefill {
				fits = fits || p.Fits(i, j)
			}
			if !fits {
				f.t.Errorf("decode worker %s fits nobody", p.Decode[j].Worker.ID)
			}
		}
	}
	for j := range pools[0].Decode {
		if pools[0].Fits(0, j) {
			return Choice{Decode: j}
		}
	}
	f.t.Error("there is no pair in the first pool")
	return Choice{}
}

// TestLeaseLeavesOut is about what a fleet of two and two leases when something
// is barred or to be avoided.
func TestLeaseLeavesOut(t *testing.T) {
	type set func(r *Registry, need *Need, now time.Time)
	var (
		worker = func(r *Registry, id string) *Worker { return worker(t, r, id) }
		barred = func(id string) set {
			return func(r *Registry, _ *Need, now time.Time) { r.Bar(worker(r, id), Breaking, now.Add(time.Minute), "") }
		}
		avoided = func(prefill, decode string) set {
			return func(r *Registry, need *Need, _ time.Time) {
				var a Avoid
				if prefill != "" {
					a.Prefill = worker(r, prefill)
				}
				if decode != "" {
					a.Decode = worker(r, decode)
				}
				need.Avoid = append(need.Avoid, a)
			}
		}
		parted = func(prefill, decode string) set {
			return func(r *Registry, _ *Need, now time.Time) {
				r.BarPair(worker(r, prefill), worker(r, decode), now.Add(time.Minute))
			}
		}
	)
	tests := []struct {
		name string
		sets []set
		want string // of the leased pair, or the error
	}{
		{"nothing", nil, "prefill-0 decode-0"},
		{"a barred prefill worker", []set{barred("prefill-0")}, "prefill-1 decode-0"},
		{"a barred decode worker", []set{barred("decode-0")}, "prefill-0 decode-1"},
		{"a bar that is over", []set{func(r *Registry, _ *Need, now time.Time) {
			r.Bar(worker(r, "prefill-0"), Breaking, now.Add(-time.Second), "")
		}}, "prefill-0 decode-0"},
		{"a bar that was lifted", []set{barred("prefill-0"), func(r *Registry, _ *Need, _ time.Time) { r.Bar(worker(r, "prefill-0"), Breaking, time.Time{}, "") }}, "prefill-0 decode-0"},
		{"a bar that was lifted while another cause has its own", []set{barred("prefill-0"), func(r *Registry, _ *Need, now time.Time) {
			r.Bar(worker(r, "prefill-0"), Stalled, Forever(), "")
			r.Bar(worker(r, "prefill-0"), Breaking, time.Time{}, "")
		}}, "prefill-1 decode-0"},
		{"a barred pair", []set{parted("prefill-0", "decode-0")}, "prefill-0 decode-1"},
		{"a pair that was barred and lifted", []set{parted("prefill-0", "decode-0"), func(r *Registry, _ *Need, _ time.Time) {
			r.BarPair(worker(r, "prefill-0"), worker(r, "decode-0"), time.Time{})
		}}, "prefill-0 decode-0"},
		{"a prefill worker whose pairs are all barred", []set{parted("prefill-0", "decode-0"), parted("prefill-0", "decode-1")}, "prefill-1 decode-0"},
		{"a prefill worker of whose partners one is barred, and the other by pair", []set{barred("decode-1"), parted("prefill-0", "decode-0")}, "prefill-1 decode-0"},
		{"a decode worker whose pairs are all barred", []set{parted("prefill-0", "decode-0"), parted("prefill-1", "decode-0")}, "prefill-0 decode-1"},
		{"all pairs", []set{parted("prefill-0", "decode-0"), parted("prefill-0", "decode-1"), parted("prefill-1", "decode-0"), parted("prefill-1", "decode-1")}, "no prefill and decode worker may be paired now"},
		{"all prefill workers", []set{barred("prefill-0"), barred("prefill-1")}, "every prefill worker is left out for now (breaker)"},
		{"all decode workers", []set{barred("decode-0"), barred("decode-1")}, "every decode worker is left out for now (breaker)"},
		{"an avoided prefill worker", []set{avoided("prefill-0", "")}, "prefill-1 decode-0"},
		{"an avoided decode worker", []set{avoided("", "decode-0")}, "prefill-0 decode-1"},
		{"an avoided pair", []set{avoided("prefill-0", "decode-0")}, "prefill-0 decode-1"},
		{"an avoided pair that is barred too", []set{avoided("prefill-0", "decode-0"), parted("prefill-0", "decode-0")}, "prefill-0 decode-1"},
		{"an avoided worker of which the other is barred", []set{avoided("prefill-0", ""), barred("prefill-1")}, "prefill-0 decode-0"},
		{"avoided workers of which one has no other", []set{avoided("prefill-0", ""), avoided("", "decode-0"), barred("decode-1")}, "prefill-1 decode-0"},
		{"an avoided pair that is the last", []set{avoided("prefill-0", "decode-0"), barred("decode-1"), barred("prefill-1")}, "prefill-0 decode-0"},
		{"an avoided pair that is the last but for an avoided worker", []set{avoided("prefill-0", "decode-0"), avoided("prefill-1", ""), barred("decode-1")}, "prefill-0 decode-0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fleet(t, 2, firstFit{t})
			var need Need
			for _, set := range tt.sets {
				set(r, &need, time.Now())
			}
			var pair Pair

			got := ""
			if err := r.Lease(t.Context(), need, &pair); err != nil {
				got = err.Error()
			} else {
				got = names(&pair)
				drop(&pair)
			}

			if got != tt.want {
				t.Errorf("Lease = %s, want %s", got, tt.want)
			}
		})
	}
}

// TestNoneErrorSaysUntil: the client is told when it is worth to come again.
func TestNoneErrorSaysUntil(t *testing.T) {
	r := fleet(t, 2, first{})
	now := time.Now()
	lease := func() NoneError {
		none := &NoneError{}
		if err := r.Lease(t.Context(), Need{}, new(Pair)); !errors.As(err, &none) {
			t.Fatalf("Lease = %v, want a NoneError", err)
		}
		return *none
	}
	r.Bar(worker(t, r, "decode-0"), Stalled, Forever(), "")
	r.Bar(worker(t, r, "decode-1"), Probing, Forever(), "")
	if got, want := lease(), (NoneError{Role: Decode, Cause: Stalled}); got != want {
		t.Errorf("Lease with bars for ever = %+v, want %+v", got, want)
	}
	// A worker is free when its last bar has ended.
	r.Bar(worker(t, r, "decode-1"), Probing, now.Add(time.Hour), "")
	r.Bar(worker(t, r, "decode-1"), Backpressure, now.Add(time.Minute), "")
	if got, want := lease(), (NoneError{Role: Decode, Cause: Probing, Until: now.Add(time.Hour)}); got != want {
		t.Errorf("Lease with two bars = %+v, want %+v", got, want)
	}
	r.Bar(worker(t, r, "decode-0"), Stalled, time.Time{}, "")
	r.BarPair(worker(t, r, "prefill-0"), worker(t, r, "decode-0"), now.Add(2*time.Minute))
	r.BarPair(worker(t, r, "prefill-1"), worker(t, r, "decode-0"), now.Add(time.Minute))
	if got, want := lease(), (NoneError{Mismatch: true, Cause: Breaking, Until: now.Add(time.Minute)}); got != want {
		t.Errorf("Lease with barred pairs = %+v, want %+v", got, want)
	}
}

// picky is a Judge that permits what permits says, and keeps what it is told.
type picky struct {
	permits func(prefill, decode *Worker) bool

	mu    sync.Mutex
	asked int
	ended []string
}

func (j *picky) Permit(p *Permit, prefill, decode *Worker) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked++
	p.Prefill, p.Decode = prefill, decode
	return j.permits(prefill, decode)
}

func (j *picky) Ended(p *Permit, role Role, outcome error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = append(j.ended, fmt.Sprintf("%s of %s and %s: %v", role, p.Prefill.ID, p.Decode.ID, outcome))
}

func (*picky) Began(*Permit)                           {}
func (*picky) Reported(*Worker, Report, Report, error) {}

func TestLeaseAsksTheJudge(t *testing.T) {
	r := fleet(t, 3, first{})
	j := &picky{}
	j.permits = func(prefill, decode *Worker) bool {
		if prefill.ID != "prefill-2" {
			r.Bar(prefill, Breaking, Forever(), "") // which needs the lock
			return false
		}
		return true
	}
	r.SetJudge(j)
	var pair Pair

	if err := r.Lease(t.Context(), Need{}, &pair); err != nil || pair.Prefill.Worker.ID != "prefill-2" || j.asked != 3 {
		t.Fatalf("Lease = %v, after %d questions, want prefill-2 at the third", err, j.asked)
	}
	for _, s := range r.Statuses() {
		if want := map[string]int{"prefill-2": 1, "decode-0": 1}[s.Worker.ID]; s.InFlight != want {
			t.Errorf("%s has %d leases, want %d: what is refused is given back", s.Worker.ID, s.InFlight, want)
		}
	}
	pair.Decode.Done(&Fault{Kind: Busy})
	pair.Prefill.Done(nil)
	want := []string{"decode of prefill-2 and decode-0: busy", "prefill of prefill-2 and decode-0: <nil>"}
	if fmt.Sprint(j.ended) != fmt.Sprint(want) {
		t.Errorf("the judge was told %q, want %q", j.ended, want)
	}
}

// TestLeaseGivesUp is about a Judge that refuses and bars nothing.
func TestLeaseGivesUp(t *testing.T) {
	r := fleet(t, 1, first{})
	j := &picky{permits: func(_, _ *Worker) bool { return false }}
	r.SetJudge(j)

	err := r.Lease(t.Context(), Need{}, new(Pair))

	if none := (*NoneError)(nil); !errors.As(err, &none) || none.Cause != Breaking || j.asked != maxPicks {
		t.Errorf("Lease = %v after %d questions, want a NoneError after %d", err, j.asked, maxPicks)
	}
	if r.Statuses()[0].InFlight != 0 {
		t.Error("refused leases are still out")
	}
}

func TestLeaseDoesNotAllocate(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(r *Registry, need *Need)
	}{
		{"nothing barred", func(*Registry, *Need) {}},
		{"a worker and pairs barred, others avoided", func(r *Registry, need *Need) {
			r.Bar(worker(t, r, "decode-0"), Breaking, Forever(), "")
			r.BarPair(worker(t, r, "prefill-1"), worker(t, r, "decode-1"), Forever())
			need.Avoid = []Avoid{{Prefill: worker(t, r, "prefill-2")}, {Prefill: worker(t, r, "prefill-0"), Decode: worker(t, r, "decode-3")}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := fleet(t, 8, least{})
			r.SetJudge(&silent{})
			var (
				need Need
				pair Pair
			)
			tt.set(r, &need)
			ctx := t.Context()
			n := 1.0
			for range 50 { // a sync.Pool forgets now and then, under the race detector a quarter
				n = min(n, testing.AllocsPerRun(2, func() {
					if err := r.Lease(ctx, need, &pair); err != nil {
						t.Fatal(err)
					}
					drop(&pair)
				}))
			}
			if n != 0 {
				t.Errorf("Lease and Done make %v allocations, want 0", n)
			}
		})
	}
}

// silent is a Judge that permits everything.
type silent struct{}

func (*silent) Permit(*Permit, *Worker, *Worker) bool   { return true }
func (*silent) Ended(*Permit, Role, error)              {}
func (*silent) Began(*Permit)                           {}
func (*silent) Reported(*Worker, Report, Report, error) {}

func BenchmarkLease(b *testing.B) {
	for _, n := range []int{8, 128} {
		for _, parted := range []int{0, 16} {
			b.Run(fmt.Sprintf("%d workers, %d pairs barred", n, parted), func(b *testing.B) {
				r := fleet(b, n/2, first{})
				for i := range min(parted, n/2) {
					r.BarPair(worker(b, r, fmt.Sprint("prefill-", i)), worker(b, r, "decode-1"), Forever())
				}
				var pair Pair
				ctx := context.Background()
				b.ReportAllocs()
				for b.Loop() {
					if err := r.Lease(ctx, Need{}, &pair); err != nil {
						b.Fatal(err)
					}
					drop(&pair)
				}
			})
		}
	}
}
