package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// apply leases a pair in the background; what came of it is sent.
func apply(ctx context.Context, r *Registry, need Need) (*Pair, <-chan error) {
	pair, came := new(Pair), make(chan error, 1)
	go func() { came <- r.Lease(ctx, need, pair) }()
	return pair, came
}

func TestPlannerKeepsRequests(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *keeper, *Registry){
		"until it is asked again, when it wanted to be": func(t *testing.T, k *keeper, r *Registry) {
			k.wake = time.Second
			begin := time.Now()
			pair, came := apply(t.Context(), r, Need{})
			synctest.Wait()
			if r.Waiting() != 1 {
				t.Errorf("%d requests wait, want 1", r.Waiting())
			}
			k.let(1)
			if err := <-came; err != nil || time.Since(begin) != time.Second {
				t.Errorf("Lease = %v after %v, want a pair after 1s", err, time.Since(begin))
			}
			drop(pair)
		},
		"until a leg ends": func(t *testing.T, k *keeper, r *Registry) {
			k.let(1)
			one, came := apply(t.Context(), r, Need{})
			if err := <-came; err != nil {
				t.Fatal(err)
			}
			other, came := apply(t.Context(), r, Need{})
			synctest.Wait()
			k.let(1)
			one.Decode.Done(nil)
			if err := <-came; err != nil {
				t.Fatal(err)
			}
			one.Prefill.Done(nil)
			drop(other)
		},
		"until another one comes": func(t *testing.T, k *keeper, r *Registry) {
			_, first := apply(t.Context(), r, Need{})
			synctest.Wait()
			k.let(2)
			_, second := apply(t.Context(), r, Need{})
			if err := errors.Join(<-first, <-second); err != nil {
				t.Error(err)
			}
		},
		"until the fleet changes": func(t *testing.T, k *keeper, r *Registry) {
			_, came := apply(t.Context(), r, Need{})
			synctest.Wait()
			k.let(1)
			r.Drain("decode-1")
			if err := <-came; err != nil {
				t.Error(err)
			}
		},
		"not if they have been tried before": func(t *testing.T, _ *keeper, r *Registry) {
			_, came := apply(t.Context(), r, Need{Avoid: []Avoid{{Prefill: worker(t, r, "prefill-0")}}})
			if err := <-came; err != nil {
				t.Error(err)
			}
		},
		"not for ever: who leaves is taken out": func(t *testing.T, k *keeper, r *Registry) {
			ctx, cancel := context.WithCancel(t.Context())
			_, came := apply(ctx, r, Need{})
			_, stays := apply(t.Context(), r, Need{})
			synctest.Wait()
			cancel()
			if err := <-came; !errors.Is(err, context.Canceled) || r.Waiting() != 1 {
				t.Errorf("Lease = %v and %d wait, want it canceled and the other one", err, r.Waiting())
			}
			k.let(1)
			r.Drain("decode-1")
			if err := <-stays; err != nil {
				t.Error(err)
			}
		},
		"not if nobody is left who could serve them": func(t *testing.T, _ *keeper, r *Registry) {
			_, came := apply(t.Context(), r, Need{})
			synctest.Wait()
			r.Drain("decode-0")
			r.Drain("decode-1")
			if err := <-came; err == nil || !contains(err, "no decode worker is ready") {
				t.Errorf("Lease = %v, want it to say that no decode worker is ready", err)
			}
		},
		"not if those who could are barred": func(t *testing.T, _ *keeper, r *Registry) {
			_, came := apply(t.Context(), r, Need{})
			synctest.Wait()
			for _, id := range []string{"prefill-0", "prefill-1"} {
				r.Bar(worker(t, r, id), Breaking, Forever(), "")
			}
			if err := <-came; err == nil || !contains(err, "every prefill worker is left out") {
				t.Errorf("Lease = %v, want it to say that prefill is left out", err)
			}
		},
		"but it sees some hundreds of them at most": func(t *testing.T, k *keeper, r *Registry) {
			for range maxSeen + 10 {
				apply(t.Context(), r, Need{})
			}
			synctest.Wait()
			if k.waiting != maxSeen || r.Waiting() != maxSeen+10 {
				t.Errorf("it sees %d of the %d that wait, want %d", k.waiting, r.Waiting(), maxSeen)
			}
			k.let(maxSeen + 10)
			r.Drain("decode-1") // for all of them to go
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keeper{}
				r := fleet(t, 2, k)
				f(t, k, r)
				r.Close()
				if r.Waiting() != 0 {
					t.Errorf("%d requests wait at the end", r.Waiting())
				}
			})
		})
	}
}

// TestLearnerIsToldOnce: every prefill leg that was chosen ends once for the
// Chooser too, whatever became of it.
func TestLearnerIsToldOnce(t *testing.T) {
	chain := []uint64{1, 2, 3}
	for name, c := range map[string]struct {
		does func(*Registry, *Pair)
		want Prefilled // and what is asked of it
	}{
		"a leg that the engine computed": {func(_ *Registry, p *Pair) {
			p.Prefill.Computed(900, 512)
			drop(p)
		}, Prefilled{OK: true, Tokens: 900, Cached: 512}},
		"a leg of which the engine says nothing": {func(_ *Registry, p *Pair) {
			p.Prefill.Computed(-1, -1)
			drop(p)
		}, Prefilled{OK: true, Tokens: -1, Cached: -1}},
		"a leg that failed": {func(_ *Registry, p *Pair) {
			p.Decode.Done(context.Canceled)
			p.Prefill.Done(errors.New("reset"))
		}, Prefilled{Tokens: -1, Cached: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			k := &keeper{free: 1}
			r := fleet(t, 2, k)
			var pair Pair
			if err := r.Lease(t.Context(), Need{Prompt: Prompt{Chain: chain, Bytes: 1600}}, &pair); err != nil {
				t.Fatal(err)
			}
			if c.does(r, &pair); len(k.ended) != 1 {
				t.Fatalf("the Chooser was told %d times, want once", len(k.ended))
			}
			got := k.ended[0]
			if got.OK != c.want.OK || got.Tokens != c.want.Tokens || got.Cached != c.want.Cached || got.At.IsZero() {
				t.Errorf("it was told %+v, want %+v", got, c.want)
			}
			if got.Expect.Blocks != 3 || got.Prompt.Bytes != 1600 || k.seats[0] != pair.Prefill.Worker.Seat() {
				t.Errorf("it was told %+v of seat %d, want the leg's own", got, k.seats[0])
			}
		})
	}
	t.Run("a pair that the Judge refused", func(t *testing.T) {
		k := &keeper{free: 1}
		r := fleet(t, 2, k)
		r.SetJudge(&refuser{times: 1})
		var pair Pair
		if err := r.Lease(t.Context(), Need{}, &pair); err != nil {
			t.Fatal(err)
		}
		defer drop(&pair)
		if len(k.ended) != 1 || k.ended[0].OK {
			t.Errorf("the Chooser was told %+v, want that the refused leg is over", k.ended)
		}
	})
}

// refuser refuses some pairs.
type refuser struct{ times int }

func (j *refuser) Permit(p *Permit, prefill, decode *Worker) bool {
	p.Refused = Avoid{Prefill: prefill, Decode: decode}
	j.times--
	return j.times < 0
}

func (*refuser) Began(*Permit)                           {}
func (*refuser) Ended(*Permit, Role, error)              {}
func (*refuser) Reported(*Worker, Report, Report, error) {}

func TestSeats(t *testing.T) {
	k := &keeper{free: 1}
	r := fleet(t, 2, k)
	r.cfg.DrainSettle = 0
	seats := func() (all []int) {
		for _, s := range r.Statuses() {
			all = append(all, s.Worker.Seat())
		}
		return all
	}
	if got := seats(); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Fatalf("seats are %v, want one for each", got)
	}
	var pair Pair
	if err := r.Lease(t.Context(), Need{}, &pair); err != nil {
		t.Fatal(err)
	}
	gone := pair.Prefill.Worker
	add := func(url string) *Worker {
		w, err := r.Add(Spec{Role: Prefill, URL: url})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}

	if err := r.Remove(gone.ID); err != nil {
		t.Fatal(err)
	}

	if w := add("http://10.0.1.8:1"); w.Seat() != 4 {
		t.Errorf("the new worker has seat %d, want 4: of the one removed a leg is under way", w.Seat())
	}
	drop(&pair)
	if want := fmt.Sprint("gone ", gone.Seat()); !slices.Contains(k.told, want) {
		t.Errorf("the Chooser was told %q, want %q too", k.told, want)
	}
	if w := add("http://10.0.1.9:1"); w.Seat() != gone.Seat() {
		t.Errorf("the next new worker has seat %d, want %d, which is free", w.Seat(), gone.Seat())
	}
}

func TestLearnerHearsOfEngines(t *testing.T) {
	k := &keeper{}
	r := fleet(t, 1, k)
	w := worker(t, r, "prefill-0")
	r.read = func(context.Context, *Worker) (Report, error) { return Report{At: time.Now(), KVCapacity: 7}, nil }

	r.readReport(t.Context(), w)
	r.Recheck(w)

	if want := []string{"reported 0", "flushed 0"}; !slices.Equal(k.told, want) {
		t.Errorf("the Chooser was told %q, want %q", k.told, want)
	}
	if w.load.Report == nil || w.load.Report.KVCapacity != 7 {
		t.Errorf("the load's report is %+v, want the one read", w.load.Report)
	}
}

// TestWhoLeavesGivesBackWhatIsGranted: a slot may come free for a request in the
// moment in which its client leaves.
func TestWhoLeavesGivesBackWhatIsGranted(t *testing.T) {
	r := admitting(t, 2, least{}, func(a *Admission) { a.MaxInFlight = 1 })
	for range 300 {
		var one Pair
		if err := r.Lease(t.Context(), Need{}, &one); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		other, came := apply(ctx, r, Need{})
		for r.Waiting() == 0 {
			runtime.Gosched()
		}
		leave()
		drop(&one)
		if err := <-came; err == nil {
			drop(other)
		}
		if c := r.Crowd(); c.Open != 0 || c.Waiting() != 0 {
			t.Fatalf("%+v, want nobody: who left had been granted the slot", c)
		}
	}
}

// TestManyWaiters: ten thousand requests that wait take 2 KB of memory each at
// most, beside the stacks of those who wait, which are 4 KB. When they are gone
// nothing of the line is left.
func TestManyWaiters(t *testing.T) {
	const n, most = 10_000, 2 << 10
	r := admitting(t, 2, least{}, func(a *Admission) { a.MaxInFlight, a.QueueSize = 1, n })
	held := func() (heap, stacks uint64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse, m.StackInuse
	}
	var one Pair
	if err := r.Lease(t.Context(), Need{}, &one); err != nil {
		t.Fatal(err)
	}
	heap, stacks := held()
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			var pair Pair
			if err := r.Lease(ctx, Need{Tenant: uint64(i % 100), Prompt: Prompt{Bytes: 1000}}, &pair); !errors.Is(err, context.Canceled) {
				t.Errorf("Lease = %v, want that it was left", err)
			}
		})
	}
	for r.Waiting() < n {
		runtime.Gosched()
	}
	heapThen, stacksThen := held()
	each := (heapThen - heap) / n
	t.Logf("each that waits takes %d bytes, and a stack of %d", each, (stacksThen-stacks)/n)
	if each > most {
		t.Errorf("each that waits takes %d bytes, want at most %d", each, most)
	}
	leave()
	all.Wait()
	if c := r.Crowd(); c.Waiting() != 0 || c.Open != 1 {
		t.Errorf("%+v, want nobody that waits", c)
	}
	drop(&one)
}
