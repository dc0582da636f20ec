package workers

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/exchange"
)

// reload puts a configuration in force that differs from that of r.
func reload(t *testing.T, r *Registry, change func(*Reload)) []*Worker {
	t.Helper()
	added, err := r.Reload(changed(r, change))
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// changed returns the configuration of r, changed.
func changed(r *Registry, change func(*Reload)) Reload {
	n := Reload{Config: *r.config(), Conns: exchange.DefaultConfig(), Choose: func(old Chooser) Chooser { return old }}
	change(&n)
	return n
}

// TestReloadLetsThoseWaitingGo: who waits is judged by the bounds in force.
func TestReloadLetsThoseWaitingGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admitting(t, 2, least{}, func(a *Admission) { a.MaxInFlight = 1 })
		all := []customer{come(t, r, "a", Need{}), come(t, r, "b", Need{}), come(t, r, "c", Need{})}
		if len(all[1].came) != 0 {
			t.Fatal("two are under way though one may be")
		}
		reload(t, r, func(n *Reload) { n.Config.Admission.MaxInFlight = 2 })
		synctest.Wait()
		if len(all[1].came) != 1 || len(all[2].came) != 0 {
			t.Errorf("of two that waited %d and %d are served, want 1 and 0", len(all[1].came), len(all[2].came))
		}
		reload(t, r, func(n *Reload) { n.Config.Admission.QueueTimeout = time.Second })
		time.Sleep(time.Second)
		synctest.Wait()
		shed := new(ShedError)
		if err := <-all[2].came; !errors.As(err, &shed) || !shed.TimedOut {
			t.Errorf("Lease = %v, want a wait that was too long", err)
		}
		for _, c := range all[:2] {
			<-c.came
			drop(c.pair)
		}
	})
}

// TestReloadBoundsPrefill for the workers that are there.
func TestReloadBoundsPrefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admitting(t, 1, least{}, func(*Admission) {})
		reload(t, r, func(n *Reload) { n.Config.Admission.PrefillMaxInFlight = 1 })
		one, two := come(t, r, "", Need{}), come(t, r, "", Need{})
		if len(one.came) != 1 || len(two.came) != 0 || r.Crowd().Lacking[OfPrefill] != 1 {
			t.Errorf("%v wait, want one for prefill", r.Crowd().Lacking)
		}
		<-one.came
		drop(one.pair)
		<-two.came
		drop(two.pair)
	})
}

// A pupil is a Chooser that learns, and notes what it is told.
type pupil struct{ ended []string }

func (l *pupil) Choose(Need, []Pool) Choice {
	return Choice{Expect: Expectation{Ticket: 1}}
}

func (l *pupil) Ended(_ int, p Prefilled) { l.ended = append(l.ended, strings.Repeat("ok", b2i(p.OK))) }
func (l *pupil) Reported(int, Report)     {}
func (l *pupil) Flushed(int)              {}
func (l *pupil) Gone(int)                 {}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestLeasesEndWithWhoGrantedThem, whoever chooses by then.
func TestLeasesEndWithWhoGrantedThem(t *testing.T) {
	before, after := &pupil{}, &pupil{}
	r := fleet(t, 1, before)
	var one, two Pair
	if err := r.Lease(t.Context(), Need{}, &one); err != nil {
		t.Fatal(err)
	}
	reload(t, r, func(n *Reload) {
		n.Choose = func(old Chooser) Chooser {
			if old != Chooser(before) {
				t.Errorf("%v was choosing", old)
			}
			return after
		}
	})
	if err := r.Lease(t.Context(), Need{}, &two); err != nil {
		t.Fatal(err)
	}
	one.Prefill.Computed(10, 0)
	drop(&one)
	drop(&two)
	if !slices.Equal(before.ended, []string{"ok"}) || !slices.Equal(after.ended, []string{""}) || r.Chooser() != Chooser(after) {
		t.Errorf("the one before was told of %q, the one after of %q", before.ended, after.ended)
	}
}

// TestReloadAsksANewPlanner about those that the old one kept, with nothing that
// the old one had looked up.
func TestReloadAsksANewPlanner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		r := fleet(t, 1, k)
		pair, came := apply(t.Context(), r, Need{Prompt: Prompt{Bytes: 1}})
		synctest.Wait()
		if r.Waiting() != 1 {
			t.Fatalf("%d requests wait, want 1", r.Waiting())
		}
		reload(t, r, func(n *Reload) { n.Choose = func(Chooser) Chooser { return least{} } })
		if err := <-came; err != nil {
			t.Fatal(err)
		}
		drop(pair)
	})
}

// TestRefusedReloadChangesNothing at all.
func TestRefusedReloadChangesNothing(t *testing.T) {
	r := fleet(t, 1, least{})
	before, cfg := r.Statuses(), r.config()
	for name, change := range map[string]func(*Reload){
		"a worker that is there": func(n *Reload) { n.Add = []Spec{{Role: Decode, URL: "http://10.0.2.0:1"}} },
		"a worker that is not":   func(n *Reload) { n.Remove = []string{"prefill-0", "decode-7"} },
		"a worker with a fault":  func(n *Reload) { n.Add = []Spec{{Role: Decode, URL: "http://10.0.2.9:1"}, {URL: "ftp://x"}} },
		"a set with a fault":     func(n *Reload) { n.Config.LoadInterval = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			n := changed(r, change)
			n.Choose = func(Chooser) Chooser {
				t.Error("another one is to choose")
				return first{}
			}
			n.Config.APIKey, n.Config.Admission.MaxInFlight = "new", 5
			if _, err := r.Reload(n); err == nil {
				t.Error("Reload = nil, want an error")
			}
			if r.config() != cfg || len(r.Statuses()) != len(before) || before[0].Worker.Key() != "" {
				t.Errorf("something has changed: %+v", r.config())
			}
		})
	}
}

// TestReloadOfKeys reaches the workers that follow the key of all, and those
// that are given another of their own; none is made anew for it.
func TestReloadOfKeys(t *testing.T) {
	cfg := DefaultConfig()
	cfg.APIKey = "all"
	cfg.Specs = []Spec{{URL: "http://10.0.1.0:1"}, {URL: "http://10.0.1.1:1", APIKey: "own"}, {Role: Decode, URL: "http://10.0.2.0:1"}}
	r := readyRegistry(t, cfg, least{})
	keys := func(want ...string) {
		t.Helper()
		var got []string
		for _, s := range r.Statuses() {
			got = append(got, s.Worker.Key())
		}
		if !slices.Equal(got, want) {
			t.Errorf("keys are %q, want %q", got, want)
		}
	}
	keys("all", "own", "all")
	reload(t, r, func(n *Reload) { n.Config.APIKey = "new" })
	keys("new", "own", "new")
	reload(t, r, func(n *Reload) { n.Keys = map[string]string{"prefill-0": "mine", "prefill-1": ""} })
	keys("mine", "new", "new")
	reload(t, r, func(n *Reload) { n.Config.APIKey = "" })
	keys("mine", "", "")
}

// TestReloadOfWorkers is a Change at the same moment.
func TestReloadOfWorkers(t *testing.T) {
	r := fleet(t, 1, least{})
	added := reload(t, r, func(n *Reload) {
		n.Config.DrainSettle, n.Config.APIKey = 0, "new"
		n.Remove, n.Add = []string{"decode-0"}, []Spec{{Role: Decode, URL: "http://10.0.2.7:1"}}
	})
	if len(added) != 1 || added[0].ID != "decode-1" || added[0].Key() != "new" {
		t.Errorf("added %v, want decode-1 with the key in force", added)
	}
	if _, ok := r.Get("decode-0"); ok {
		t.Error("decode-0 is still there")
	}
}

// TestNoWarmupAnyMore gives a worker that is being warmed its whole share.
func TestNoWarmupAnyMore(t *testing.T) {
	r := fleet(t, 1, least{})
	w := worker(t, r, "prefill-0")
	r.mu.Lock()
	r.beginWarmLocked(w, time.Now())
	r.mu.Unlock()
	reload(t, r, func(n *Reload) { n.Config.WarmupTime = 0 })
	if s, _ := r.Get("prefill-0"); s.Weight != 1 {
		t.Errorf("its share is %v, want 1", s.Weight)
	}
}
