package workers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// admitting returns a fleet whose registry bounds what it lets in.
func admitting(t *testing.T, n int, c Chooser, bound func(*Admission)) *Registry {
	r := fleet(t, n, c)
	bound(&r.cfg.Admission)
	for _, w := range r.all {
		if w.Role == Prefill {
			w.load.MostInFlight = r.cfg.Admission.PrefillMaxInFlight
		}
	}
	t.Cleanup(r.Close)
	return r
}

// A customer is a request and what came of it.
type customer struct {
	name string
	pair *Pair
	came <-chan error
}

func come(t *testing.T, r *Registry, name string, need Need) customer {
	pair, came := apply(t.Context(), r, need)
	synctest.Wait()
	return customer{name, pair, came}
}

// served ends the pairs one by one, a second each, and returns who was served
// in which order.
func served(t *testing.T, all []customer) (order []string) {
	for left := slices.Clone(all); len(left) > 0; {
		synctest.Wait()
		i := slices.IndexFunc(left, func(c customer) bool { return len(c.came) > 0 })
		if i < 0 {
			t.Fatalf("after %q nobody is served, though %d wait", order, len(left))
		}
		if err := <-left[i].came; err != nil {
			t.Fatal(err)
		}
		order = append(order, left[i].name)
		time.Sleep(time.Second)
		drop(left[i].pair)
		left = slices.Delete(left, i, i+1)
	}
	return order
}

func TestLineIsInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		needs []Need
		want  string
	}{
		"who came first goes first":         {[]Need{{}, {}, {}}, "[0 1 2]"},
		"a higher class goes first":         {[]Need{{}, {Class: -1}, {Class: 3}, {}}, "[0 2 3 1]"},
		"tenants take turns":                {[]Need{{Tenant: 1}, {Tenant: 1}, {Tenant: 1}, {Tenant: 2}, {Tenant: 2}}, "[0 3 1 4 2]"},
		"who uses more tokens goes later":   {[]Need{{Tenant: 1, Prompt: Prompt{Bytes: 100}}, {Tenant: 1}, {Tenant: 2, Prompt: Prompt{Bytes: 10}}, {Tenant: 2, Prompt: Prompt{Bytes: 10}}}, "[0 2 3 1]"},
		"turns are within a class":          {[]Need{{Tenant: 1}, {Tenant: 1, Class: 1}, {Tenant: 2}, {Tenant: 1, Class: 1}}, "[0 1 3 2]"},
		"to have been away earns no credit": {[]Need{{Tenant: 1, Prompt: Prompt{Bytes: 5000}}, {Tenant: 1, Prompt: Prompt{Bytes: 5000}}, {Tenant: 2, Prompt: Prompt{Bytes: 10}}, {Tenant: 1, Prompt: Prompt{Bytes: 10}}, {Tenant: 2, Prompt: Prompt{Bytes: 10}}}, "[0 2 4 1 3]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := admitting(t, 2, least{}, func(a *Admission) { a.MaxInFlight = 1 })
				var all []customer
				for i, need := range c.needs {
					need.Prompt.Bytes = max(need.Prompt.Bytes, 1)
					all = append(all, come(t, r, fmt.Sprint(i), need))
				}
				if got := fmt.Sprint(served(t, all)); got != c.want {
					t.Errorf("served in the order %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestAdmissionIsBounded(t *testing.T) {
	shed := func(t *testing.T, err error, want ShedError) {
		t.Helper()
		got, ok := errors.AsType[*ShedError](err)
		if !ok || got.Shortage != want.Shortage || got.TimedOut != want.TimedOut || got.RetryAfter < time.Second || got.RetryAfter > time.Minute {
			t.Errorf("Lease = %v (%+v), want %+v", err, got, want)
		}
	}
	for name, c := range map[string]struct {
		bound func(*Admission)
		f     func(*testing.T, *Registry)
	}{
		"requests at a time": {func(a *Admission) { a.MaxInFlight = 2 }, func(t *testing.T, r *Registry) {
			one, two, three := come(t, r, "", Need{}), come(t, r, "", Need{}), come(t, r, "", Need{})
			if len(one.came) != 1 || len(two.came) != 1 || r.Crowd().Lacking != [shortages]int{OfSlots: 1} {
				t.Fatalf("%v wait, want one for a slot", r.Crowd().Lacking)
			}
			one.pair.Prefill.Done(nil)
			synctest.Wait()
			if len(three.came) != 0 {
				t.Error("the third is served though two are under way")
			}
			one.pair.Decode.Done(nil)
			synctest.Wait()
			if len(three.came) != 1 {
				t.Error("the third is not served though the first has ended")
			}
		}},
		"requests in a second": {func(a *Admission) { a.Rate = 4 }, func(t *testing.T, r *Registry) {
			begin := time.Now()
			var last customer
			for range 10 {
				last = come(t, r, "", Need{})
			}
			if err := <-last.came; err != nil || time.Since(begin) != 1500*time.Millisecond {
				t.Errorf("the tenth is served after %v, want 1.5s: four at once, then four in each second", time.Since(begin))
			}
		}},
		"requests on one prefill worker": {func(a *Admission) { a.PrefillMaxInFlight = 2 }, func(t *testing.T, r *Registry) {
			one := come(t, r, "", Need{})
			for range 3 {
				come(t, r, "", Need{})
			}
			late := come(t, r, "", Need{})
			if len(late.came) != 0 || r.Crowd().Lacking != [shortages]int{OfPrefill: 1} {
				t.Fatalf("%v wait, want one for prefill", r.Crowd().Lacking)
			}
			one.pair.Prefill.Done(nil)
			if err := <-late.came; err != nil || late.pair.Prefill.Worker != one.pair.Prefill.Worker {
				t.Errorf("Lease = %v on %s, want the place that became free", err, late.pair.Prefill.Worker.ID)
			}
		}},
		"requests that wait": {func(a *Admission) { a.MaxInFlight, a.QueueSize = 1, 2 }, func(t *testing.T, r *Registry) {
			for range 3 {
				come(t, r, "", Need{})
			}
			shed(t, <-come(t, r, "", Need{}).came, ShedError{Shortage: OfSlots})
		}},
		"requests that wait, none": {func(a *Admission) { a.MaxInFlight, a.QueueSize = 1, 0 }, func(t *testing.T, r *Registry) {
			come(t, r, "", Need{})
			shed(t, <-come(t, r, "", Need{}).came, ShedError{Shortage: OfSlots})
		}},
		"requests that wait for prefill": {func(a *Admission) { a.PrefillMaxInFlight, a.PrefillQueueSize = 1, 1 }, func(t *testing.T, r *Registry) {
			for range 3 {
				come(t, r, "", Need{})
			}
			shed(t, <-come(t, r, "", Need{}).came, ShedError{Shortage: OfPrefill})
		}},
		"requests that wait, the longest queue of one tenant": {func(a *Admission) { a.MaxInFlight, a.QueueSize = 1, 3 }, func(t *testing.T, r *Registry) {
			come(t, r, "", Need{Tenant: 1})
			var one []customer
			for range 3 {
				one = append(one, come(t, r, "", Need{Tenant: 1}))
			}
			other := come(t, r, "", Need{Tenant: 2})
			shed(t, <-one[2].came, ShedError{Shortage: OfSlots})
			if len(other.came) != 0 || r.Waiting() != 3 {
				t.Errorf("%d wait, want 3 with the other tenant's among them", r.Waiting())
			}
		}},
		"requests that wait, of the lowest class first": {func(a *Admission) { a.MaxInFlight, a.QueueSize = 1, 3 }, func(t *testing.T, r *Registry) {
			come(t, r, "", Need{})
			low := come(t, r, "", Need{Class: -1})
			come(t, r, "", Need{})
			come(t, r, "", Need{})
			come(t, r, "", Need{})
			shed(t, <-low.came, ShedError{Shortage: OfSlots})
			shed(t, <-come(t, r, "", Need{Class: -1}).came, ShedError{Shortage: OfSlots})
		}},
		"time of waiting": {func(a *Admission) { a.MaxInFlight, a.QueueTimeout = 1, 3*time.Second }, func(t *testing.T, r *Registry) {
			come(t, r, "", Need{})
			begin := time.Now()
			shed(t, <-come(t, r, "", Need{}).came, ShedError{Shortage: OfSlots, TimedOut: true})
			if time.Since(begin) != 3*time.Second {
				t.Errorf("it waited %v, want 3s", time.Since(begin))
			}
		}},
		"time of waiting for decode": {func(a *Admission) { a.DecodeWait = 4 * time.Second }, func(t *testing.T, r *Registry) {
			fill(r, 100)
			come(t, r, "", Need{Prompt: Prompt{Bytes: 60}})
			come(t, r, "", Need{Prompt: Prompt{Bytes: 60}})
			begin := time.Now()
			shed(t, <-come(t, r, "", Need{Prompt: Prompt{Bytes: 101}}).came, ShedError{Shortage: OfDecode, TimedOut: true})
			if time.Since(begin) != 4*time.Second {
				t.Errorf("it waited %v, want 4s", time.Since(begin))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.f(t, admitting(t, 2, least{}, c.bound))
			})
		})
	}
}

// TestTriedAgainIsBounded: who was tried before and finds no room waits as long as
// others may.
func TestTriedAgainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admitting(t, 1, least{}, func(a *Admission) { a.QueueTimeout = 7 * time.Second })
		fill(r, 0)
		begin := time.Now()
		again := come(t, r, "", Need{Prompt: Prompt{Bytes: 1}, Avoid: []Avoid{{Prefill: worker(t, r, "prefill-0")}}})
		if shed, ok := errors.AsType[*ShedError](<-again.came); !ok || !shed.TimedOut || time.Since(begin) != 7*time.Second {
			t.Errorf("it was refused with %v after %v, want a time-out after 7s", shed, time.Since(begin))
		}
	})
}

// TestNobodyWaitsForEver comes and leaves at random, in all classes, and in the
// end everyone has been served, refused, or has left.
func TestNobodyWaitsForEver(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 1))
			chooser := []Chooser{least{}, &keeper{free: 1 << 30}}[seed%2]
			r := admitting(t, 2, chooser, func(a *Admission) {
				a.MaxInFlight, a.QueueSize, a.QueueTimeout = 1+chance.IntN(6), 1+chance.IntN(60), 20*time.Second
				a.PrefillMaxInFlight = chance.IntN(3)
			})
			fill(r, 100)
			var all sync.WaitGroup
			var gone, refused, went int
			var mu sync.Mutex
			for range 300 {
				need := Need{Class: chance.IntN(3), Tenant: uint64(chance.IntN(4)), Prompt: Prompt{Bytes: chance.IntN(130)}}
				leaves, lasts := time.Duration(chance.IntN(30_000))*time.Millisecond, time.Duration(chance.IntN(2000))*time.Millisecond
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), leaves)
					defer cancel()
					var pair Pair
					err := r.Lease(ctx, need, &pair)
					if err == nil {
						time.Sleep(lasts)
						drop(&pair)
					}
					mu.Lock()
					defer mu.Unlock()
					switch shed := (*ShedError)(nil); {
					case err == nil:
						went++
					case errors.As(err, &shed):
						refused++
					case ctx.Err() != nil:
						gone++
					default:
						t.Errorf("Lease = %v", err)
					}
				})
				time.Sleep(time.Duration(chance.IntN(400)) * time.Millisecond)
			}
			all.Wait()
			if went == 0 || r.Waiting() != 0 || r.open != 0 {
				t.Errorf("seed %d: %d went, %d were refused, %d left; at the end %d wait and %d are under way", seed, went, refused, gone, r.Waiting(), r.open)
			}
		})
	}
}

// TestFairShare: a tenant that asks fifty times as much as another does not
// make the other wait for more than its share of the slots.
func TestFairShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admitting(t, 2, least{}, func(a *Admission) { a.MaxInFlight, a.QueueTimeout = 4, time.Hour })
		ask := func(tenant uint64) time.Duration {
			var pair Pair
			begin := time.Now()
			if err := r.Lease(t.Context(), Need{Tenant: tenant, Prompt: Prompt{Bytes: 1000}}, &pair); err != nil {
				t.Error(err)
				return 0
			}
			waited := time.Since(begin)
			time.Sleep(time.Second)
			drop(&pair)
			return waited
		}
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() { ask(1) })
		}
		for range 10 {
			time.Sleep(2 * time.Second)
			if waited := ask(2); waited > time.Second {
				t.Errorf("the other tenant waits %v, want one second at most, until a slot comes free", waited)
			}
		}
		all.Wait()
	})
}
