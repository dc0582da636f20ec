package workers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/exchange"
)

// A diary keeps the events of a registry, as "kind id: from to".
type diary struct {
	mu    sync.Mutex
	lines []string

	statesOnly bool // what is read of an engine's load is left out
}

func (d *diary) note(e Event) {
	if d.statesOnly && (e.Kind == Unread || e.Kind == Read) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	line := fmt.Sprintf("%s %s: %s to %s", e.Kind, e.Worker.ID, e.From, e.To)
	if e.Reason != "" {
		line += ", " + e.Reason
	}
	d.lines = append(d.lines, line)
}

// take returns what was noted since the last call.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// await waits until that much has been noted.
func (d *diary) await(t *testing.T, lines int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d events", lines), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.lines) >= lines
	})
}

// ids returns the IDs of the workers of r, each with its state.
func ids(r *Registry) string {
	var out []string
	for _, s := range r.Statuses() {
		state := s.State.String()
		if s.Removed {
			state = "removed"
		}
		out = append(out, s.Worker.ID+" "+state)
	}
	return strings.Join(out, ", ")
}

func TestChangesOfTheFleet(t *testing.T) {
	decode := func(n int) Spec { return Spec{Role: Decode, URL: fmt.Sprintf("http://10.0.2.%d:1", n)} }
	add := func(spec Spec) func(*Registry) error {
		return func(r *Registry) error { _, err := r.Add(spec); return err }
	}
	replace := func(id string, spec Spec) func(*Registry) error {
		return func(r *Registry) error { _, err := r.Replace(id, spec); return err }
	}
	const all = "prefill-0 ready, decode-0 ready, prefill-1 ready, decode-1 ready"
	tests := []struct {
		name  string
		do    func(r *Registry) error
		fault string // a part of the error
		want  string // the workers afterwards
	}{
		{"one is added", add(decode(7)), "", all + ", decode-2 unready"},
		{"one is added that is there", add(decode(1)), ErrExists.Error(), all},
		{"one is added with the other role", add(Spec{Role: Prefill, URL: decode(1).URL}), "", all + ", prefill-2 unready"},
		{"one is added whose URL is none", add(Spec{URL: "ftp://x"}), "must be http", all},
		{"a prefill worker is added on loopback, where no decode worker finds it", add(Spec{Role: Prefill, URL: "http://127.0.0.1:1"}), "cannot reach its bootstrap host", all},
		{"one is removed", func(r *Registry) error { return r.Remove("decode-1") }, "", "prefill-0 ready, decode-0 ready, prefill-1 ready"},
		{"one is removed twice", func(r *Registry) error { return errors.Join(r.Remove("decode-1"), r.Remove("decode-1")) }, ErrUnknownWorker.Error(), "prefill-0 ready, decode-0 ready, prefill-1 ready"},
		{"one is removed and added again", func(r *Registry) error { return errors.Join(r.Remove("decode-1"), add(decode(1))(r)) }, "", "prefill-0 ready, decode-0 ready, prefill-1 ready, decode-2 unready"},
		{"one is removed that nobody knows", func(r *Registry) error { return r.Remove("decode-9") }, `"decode-9": no such worker`, all},
		{"one is replaced by itself", replace("decode-1", decode(1)), "", "prefill-0 ready, decode-0 ready, prefill-1 ready, decode-2 unready"},
		{"one is replaced by another that is there", replace("decode-1", decode(0)), ErrExists.Error(), all},
		{"one is replaced that nobody knows", replace("decode-9", decode(9)), "no such worker", all},
		{"one is replaced by one with a fault", replace("decode-1", Spec{Role: Decode, URL: "?"}), "scheme", all},
		{"one drains", func(r *Registry) error { return r.Drain("decode-1") }, "", "prefill-0 ready, decode-0 ready, prefill-1 ready, decode-1 draining"},
		{"one drains twice and comes back", func(r *Registry) error {
			return errors.Join(r.Drain("decode-1"), r.Drain("decode-1"), r.Undrain("decode-1"), r.Undrain("decode-1"))
		}, "", all},
		{"one drains that nobody knows", func(r *Registry) error { return r.Drain("x") }, "no such worker", all},
		{"several at once, of which one has a fault", func(r *Registry) error {
			_, err := r.Change([]string{"decode-0"}, []Spec{decode(8), decode(1)})
			return err
		}, ErrExists.Error(), all},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.DrainSettle = 0
			for i := range 2 {
				cfg.Specs = append(cfg.Specs, Spec{Role: Prefill, URL: fmt.Sprintf("http://10.0.1.%d:1", i)}, decode(i))
			}
			r := readyRegistry(t, cfg, first{})

			err := tt.do(r)

			if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !contains(err, tt.fault)) {
				t.Errorf("got error %v, want %q", err, tt.fault)
			}
			if got := ids(r); got != tt.want {
				t.Errorf("workers = %s, want %s", got, tt.want)
			}
		})
	}
}

// TestRemoveWaits is about a removed worker with a stream: it is there, without
// new requests, until the stream has ended and DrainSettle has passed.
func TestRemoveWaits(t *testing.T) {
	tests := []struct {
		name   string
		stream time.Duration // how long it goes on
		want   time.Duration // when the worker is gone
	}{
		{"a stream longer than the time to settle", time.Minute, time.Minute},
		{"a stream that ends sooner", time.Second, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events diary
				r := fleet(t, 2, first{})
				r.observe = events.note
				begin := time.Now()
				var pair, other Pair
				if err := r.Lease(t.Context(), Need{}, &pair); err != nil {
					t.Fatal(err)
				}
				if err := r.Remove("decode-0"); err != nil {
					t.Fatal(err)
				}
				if err := r.Lease(t.Context(), Need{}, &other); err != nil || other.Decode.Worker.ID != "decode-1" {
					t.Fatalf("Lease after the removal = %v, %s, want decode-1", err, other.Decode.Worker.ID)
				}
				drop(&other)
				time.AfterFunc(tt.stream, func() { drop(&pair) })
				time.Sleep(tt.want - time.Millisecond)
				if s, ok := r.Get("decode-0"); !ok || s.State != Draining || !s.Removed {
					t.Errorf("before %v the worker is there: %t, %s", tt.want, ok, s.State)
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				if _, ok := r.Get("decode-0"); ok {
					t.Errorf("the worker is still there after %v", time.Since(begin))
				}
				want := []string{"removed decode-0: ready to draining", "gone decode-0: draining to draining"}
				if got := events.take(); !slices.Equal(got, want) {
					t.Errorf("events = %q, want %q", got, want)
				}
			})
		})
	}
}

// TestRemoveLeavesNothing is about what is kept of a removed worker, and what a
// look finds that was under way.
func TestRemoveLeavesNothing(t *testing.T) {
	var events diary
	r := fleet(t, 2, first{})
	w := worker(t, r, "decode-0")
	r.BarPair(worker(t, r, "prefill-0"), w, Forever())
	r.BarPair(worker(t, r, "prefill-0"), worker(t, r, "decode-1"), Forever())
	r.Remove("decode-0")
	r.BarPair(worker(t, r, "prefill-1"), w, Forever())
	if len(r.pairBars) != 1 {
		t.Errorf("%d barred pairs are kept, want the one of workers that are there", len(r.pairBars))
	}
	r.observe = events.note
	r.learn(w.looks, w, nil, errors.New("connection refused"))
	if got := events.take(); len(got) > 0 {
		t.Errorf("events of a removed worker = %q, want none", got)
	}
}

func TestDrainFinishesStreams(t *testing.T) {
	var events diary
	r := fleet(t, 1, first{})
	r.observe = events.note
	var pair Pair
	if err := r.Lease(t.Context(), Need{Model: "m"}, &pair); err != nil {
		t.Fatal(err)
	}
	r.Drain("decode-0")
	none := &NoneError{}
	if err := r.Lease(t.Context(), Need{Model: "m"}, new(Pair)); !errors.As(err, &none) || none.Role != Decode {
		t.Errorf("Lease while the only decode worker drains = %v, want that none is ready", err)
	}
	if s, _ := r.Get("decode-0"); s.State != Draining || s.InFlight != 1 {
		t.Errorf("decode-0 is %s with %d requests, want draining with 1", s.State, s.InFlight)
	}
	drop(&pair)
	if s, _ := r.Get("decode-0"); s.InFlight != 0 {
		t.Errorf("decode-0 has %d requests after its stream, want 0", s.InFlight)
	}
	r.Undrain("decode-0")
	if err := r.Lease(t.Context(), Need{Model: "m"}, &pair); err != nil {
		t.Fatalf("Lease after undrain = %v", err)
	}
	drop(&pair)
	want := []string{"changed decode-0: ready to draining", "changed decode-0: draining to ready"}
	if got := events.take(); !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
}

// TestHammer changes the fleet while requests come and go. No lease is granted
// on a worker whose draining or removal had been told before it was asked for,
// and in the end nothing is left.
func TestHammer(t *testing.T) {
	engines := [...]pages{
		{"/server_info": sglangPrefill("127.0.0.1"), "/v1/models": models},
		{"/server_info": sglangDecode, "/v1/models": models},
	}
	cfg := DefaultConfig()
	cfg.DrainSettle = time.Millisecond
	cfg.ProbeInterval = 5 * time.Millisecond
	cfg.LoadInterval = 2 * time.Millisecond
	var spare []Spec
	for role, e := range engines {
		for range 2 {
			cfg.Specs = append(cfg.Specs, Spec{Role: Role(role), URL: serve(t, e)})
		}
		for range 2 {
			spare = append(spare, Spec{Role: Role(role), URL: serve(t, e)})
		}
	}
	r, err := NewRegistry(cfg, exchange.DefaultConfig(), least{}, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	r.read = func(context.Context, *Worker) (Report, error) { return Report{At: time.Now()}, nil }
	r.SetJudge(&silent{})
	ctx, stop := context.WithCancel(t.Context())
	var run, work sync.WaitGroup
	run.Go(func() { r.Run(ctx) })
	r.Look(ctx)
	var leased, changed int64
	var mu sync.Mutex
	var out sync.Map // IDs that were told to get nothing more
	for range 4 {
		work.Go(func() {
			n := int64(0)
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				before := map[any]bool{}
				out.Range(func(id, _ any) bool { before[id] = true; return true })
				var pair Pair
				if r.Lease(ctx, Need{Model: "m"}, &pair) != nil {
					continue
				}
				for _, l := range []*Lease{&pair.Prefill, &pair.Decode} {
					if before[l.Worker.ID] {
						t.Errorf("a lease was granted on %s, which had been taken out", l.Worker.ID)
					}
				}
				n++
				drop(&pair)
			}
			mu.Lock()
			defer mu.Unlock()
			leased += n
		})
	}
	for i := range spare {
		work.Go(func() {
			n := int64(0)
			for end := time.Now().Add(time.Second); time.Now().Before(end); n++ {
				w, err := r.Add(spare[i])
				if err != nil {
					t.Errorf("Add(%s) = %v", spare[i].URL, err)
					return
				}
				pause(rand.N(4 * time.Millisecond))
				switch rand.N(3) {
				case 0:
					r.Bar(w, Backpressure, time.Now().Add(time.Millisecond), "")
				case 1:
					r.Recheck(w)
				}
				if rand.N(2) == 0 {
					r.Drain(w.ID)
					out.Store(w.ID, true)
					pause(time.Millisecond)
				}
				if err := r.Remove(w.ID); err != nil {
					t.Errorf("Remove(%s) = %v", w.ID, err)
				}
				out.Store(w.ID, true)
			}
			mu.Lock()
			defer mu.Unlock()
			changed += n
		})
	}
	work.Wait()
	eventually(t, "the removed workers to be gone", func() bool { return len(r.Statuses()) == len(cfg.Specs) })
	for _, s := range r.Statuses() {
		if s.InFlight != 0 || s.State != Ready {
			t.Errorf("%s is %s with %d leases, want ready with none", s.Worker.ID, s.State, s.InFlight)
		}
	}
	stop()
	run.Wait()
	r.Close()
	t.Logf("%d leases while %d workers came and went", leased, changed)
	if leased < 1000 || changed < 10 {
		t.Errorf("%d leases and %d changes are too few to show anything", leased, changed)
	}
}

// pause lets others run for a while.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// eventually waits until done, for 5 s at most.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !done(); pause(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
