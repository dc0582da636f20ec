package health

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/workers"
)

// A reporter is a worker that reports once per second.
type reporter struct {
	f    *fleet
	w    *workers.Worker
	last workers.Report
}

func (f *fleet) reporter(w *workers.Worker) *reporter {
	nan := math.NaN()
	return &reporter{f, w, workers.Report{
		At: time.Now(), Started: time.Unix(1_700_000_000, 0), Running: 2, KVUsed: nan, TransferredIn: nan, ComputedLocally: nan,
		PromptTokens: 100, GeneratedTokens: 100,
	}}
}

// report passes a second and reports, with what changed.
func (r *reporter) report(change func(*workers.Report)) {
	time.Sleep(time.Second)
	now := r.last
	now.At = time.Now()
	change(&now)
	r.f.Reported(r.w, r.last, now, nil)
	r.last = now
}

func same(*workers.Report) {}

func TestProgress(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *fleet, *reporter){
		"a worker that gets on is left in": func(t *testing.T, f *fleet, r *reporter) {
			for range 10 {
				r.report(func(n *workers.Report) { n.GeneratedTokens++ })
			}
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"one that does nothing for 3 s is barred, until it does": func(t *testing.T, f *fleet, r *reporter) {
			r.report(same)
			r.report(same)
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Fatal("it is barred after 2 s")
			}
			times(10, func() {
				r.report(same)
				if f.barOf(r.w, workers.Stalled) <= time.Second {
					t.Fatal("it is not barred until the next report")
				}
			})
			if got := f.reasonOf(r.w, workers.Stalled); !strings.HasPrefix(got, "no progress since ") || !strings.HasSuffix(got, "with 2 requests running") {
				t.Errorf("the reason is %q", got)
			}
			r.report(func(n *workers.Report) { n.PromptTokens++ })
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is still barred")
			}
			if want := []string{"decode-0 moving>stalled", "decode-0 stalled>moving"}; !slices.Equal(f.history(Progress), want) {
				t.Errorf("events are %q, want %q", f.history(Progress), want)
			}
		},
		"that clients leave one that has hung is no progress": func(t *testing.T, f *fleet, r *reporter) {
			r.last.Running, r.last.KVUsed = 8, 8000
			times(3, func() { r.report(same) })
			times(5, func() {
				r.report(func(n *workers.Report) { n.Running--; n.KVUsed -= 1000 })
				if f.barOf(r.w, workers.Stalled) <= time.Second {
					t.Fatal("it is not barred until the next report")
				}
			})
			r.report(func(n *workers.Report) { n.Running = 0 })
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred, though there is nothing that it could get on with")
			}
		},
		"reports that come fast take 3 s all the same": func(t *testing.T, f *fleet, r *reporter) {
			times(20, func() {
				before := r.last
				r.last.At = time.Now().Add(100 * time.Millisecond)
				time.Sleep(100 * time.Millisecond)
				f.Reported(r.w, before, r.last, nil)
			})
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred after 2 s")
			}
		},
		"two reports are not enough, however far apart": func(t *testing.T, f *fleet, r *reporter) {
			for i, want := range []bool{false, false, true} {
				time.Sleep(4 * time.Second)
				r.report(same)
				if got := f.barOf(r.w, workers.Stalled) > 0; got != want {
					t.Errorf("after report %d, barred is %v", i+1, got)
				}
			}
		},
		"a bar that no report renews ends by itself": func(t *testing.T, f *fleet, r *reporter) {
			times(3, func() { r.report(same) })
			time.Sleep(4 * time.Second)
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"an idle one is left in": func(t *testing.T, f *fleet, r *reporter) {
			r.last.Running = 0
			times(10, func() { r.report(same) })
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"one that does not count its tokens is left in": func(t *testing.T, f *fleet, r *reporter) {
			r.last.PromptTokens, r.last.GeneratedTokens = math.NaN(), math.NaN()
			times(10, func() { r.report(same) })
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"an outcome of ours is progress": func(t *testing.T, f *fleet, r *reporter) {
			times(10, func() {
				r.report(func(*workers.Report) { time.Sleep(time.Millisecond) })
				f.run(t, 1, 0, nil, nil)
			})
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"a long prompt that fills the cache is progress": func(t *testing.T, f *fleet, r *reporter) {
			r.last.KVUsed = 0
			times(10, func() { r.report(func(n *workers.Report) { n.KVUsed += 512 }) })
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"two reports far apart show nothing": func(t *testing.T, f *fleet, r *reporter) {
			times(10, func() {
				time.Sleep(stale)
				r.report(same)
			})
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"the last of its role is left in": func(t *testing.T, f *fleet, r *reporter) {
			f.statuses[3].State = workers.Unready
			times(10, func() { r.report(same) })
			if f.barOf(r.w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"of two that are stuck one is left in": func(t *testing.T, f *fleet, r *reporter) {
			other := f.reporter(f.decode[1])
			times(10, func() {
				r.report(same)
				other.report(same)
			})
			a, b := f.barOf(f.decode[0], workers.Stalled), f.barOf(f.decode[1], workers.Stalled)
			if a == 0 || b > 0 {
				t.Errorf("they are barred for %v and %v", a, b)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet := newFleet(DefaultConfig(), 2, 2)
				f(t, fleet, fleet.reporter(fleet.decode[0]))
			})
		})
	}
}

func TestSilence(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *fleet){
		"a dead connection after 2 s of silence bars at once": func(t *testing.T, f *fleet) {
			f.run(t, 0, 0, nil, nil)
			time.Sleep(2 * time.Second)
			f.run(t, 0, 0, nil, gone())
			if got := f.barOf(f.decode[0], workers.Stalled); got != silentBar {
				t.Errorf("it is barred for %v", got)
			}
			if f.barOf(f.prefill[0], workers.Stalled) > 0 {
				t.Error("the other leg's worker is barred")
			}
		},
		"one that was heard of a moment ago is left to its breaker": func(t *testing.T, f *fleet) {
			time.Sleep(time.Minute)
			f.run(t, 0, 0, nil, nil)
			f.run(t, 0, 0, nil, gone())
			if f.barOf(f.decode[0], workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"one that stays silent is barred again, and said once": func(t *testing.T, f *fleet) {
			time.Sleep(time.Minute)
			times(3, func() {
				f.run(t, 0, 0, nil, gone())
				if f.barOf(f.decode[0], workers.Stalled) == 0 {
					t.Error("it is not barred")
				}
				time.Sleep(silentBar)
			})
			if want := []string{"decode-0 moving>stalled"}; !slices.Equal(f.history(Progress), want) {
				t.Errorf("events are %q, want %q", f.history(Progress), want)
			}
		},
		"a report ends the bar": func(t *testing.T, f *fleet) {
			time.Sleep(time.Minute)
			f.run(t, 0, 0, nil, gone())
			r := f.reporter(f.decode[0])
			r.report(same)
			if f.barOf(f.decode[0], workers.Stalled) > 0 {
				t.Error("it is barred")
			}
			if want := []string{"decode-0 moving>stalled", "decode-0 stalled>moving"}; !slices.Equal(f.history(Progress), want) {
				t.Errorf("events are %q, want %q", f.history(Progress), want)
			}
		},
		"a 500 after silence is no dead connection": func(t *testing.T, f *fleet) {
			time.Sleep(time.Minute)
			f.run(t, 0, 0, nil, sick())
			if f.barOf(f.decode[0], workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"the last of its role is left in": func(t *testing.T, f *fleet) {
			time.Sleep(time.Minute)
			f.run(t, 0, 0, nil, gone())
			f.run(t, 0, 1, nil, gone())
			if f.barOf(f.decode[0], workers.Stalled) == 0 || f.barOf(f.decode[1], workers.Stalled) > 0 {
				t.Error("not exactly one of the two is barred")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet := newFleet(DefaultConfig(), 2, 2)
				fleet.run(t, 0, 0, nil, nil) // from here on they are known
				fleet.run(t, 0, 1, nil, nil)
				f(t, fleet)
			})
		})
	}
}

func TestRestartIsSeen(t *testing.T) {
	at := func(started int64, prompt float64) workers.Report {
		r := workers.Report{At: time.Unix(2_000_000_000, 0), PromptTokens: prompt, GeneratedTokens: math.NaN()}
		if started > 0 {
			r.Started = time.Unix(started, 0)
		}
		return r
	}
	spent := func(seconds float64) workers.Report { // by an engine that has had no request
		r := at(0, 0)
		r.ProcessSeconds = seconds
		return r
	}
	for name, c := range map[string]struct {
		before, now workers.Report
		want        bool
	}{
		"a later start time":                     {at(1000, 5), at(1100, 9), true},
		"a start time that wobbles":              {at(1000, 5), at(1001, 9), false},
		"no start times, and a total that fell":  {at(0, 5), at(0, 4), true},
		"no start times, and a total that grew":  {at(0, 5), at(0, 6), false},
		"the first start time that is told":      {at(0, 5), at(1000, 6), false},
		"no total either":                        {at(0, math.NaN()), at(0, math.NaN()), false},
		"the same start time, a total that fell": {at(1000, 5), at(1000, 4), false},
		"CPU time that fell":                     {spent(30), spent(20), true},
		"CPU time that grew":                     {spent(30), spent(31), false},
		"the first report of all":                {workers.Report{}, at(1000, 4), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := restarted(c.before, c.now); (got != "") != c.want {
				t.Errorf("restarted = %q", got)
			}
		})
	}
}

// The half of BUG-071 that is about breakers.
func TestRestartForgetsWhatWasHeldAgainstTheOldProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 2, 2)
		times(10, func() { f.run(t, 1, 0, nil, untaken()) })
		old := f.open(t, 0, 0)
		times(10, func() { f.run(t, 0, 0, nil, sick()) })
		late := f.open(t, 0, 1)
		f.Ended(old, workers.Prefill, nil)
		f.ward(f.decode[0]).pressure.busy(time.Now(), 5*time.Second)
		r := f.reporter(f.decode[0])
		r.report(func(n *workers.Report) { n.Started = n.Started.Add(time.Second) })
		if len(f.history(Restart)) > 0 || f.barOf(f.decode[0], workers.Breaking) == 0 {
			t.Fatal("a start time that wobbles is taken for a restart")
		}
		r.report(func(n *workers.Report) { n.Started = n.Started.Add(time.Minute) })
		if len(f.history(Restart)) != 1 {
			t.Error("there is no event")
		}
		if f.barOf(f.decode[0], workers.Backpressure) > 0 {
			t.Error("it is barred for the backpressure of before")
		}
		if f.barOf(f.decode[0], workers.Breaking) > 0 || f.pairBarOf(f.prefill[1], f.decode[0]) > 0 {
			t.Error("the worker or its pair is barred")
		}
		f.Ended(old, workers.Decode, sick())
		f.restarted(f.ward(f.decode[1]), "")
		f.end(late, nil, sick())
		if got := f.Breakers().Workers[3]; got.Failures != 0 {
			t.Error("a closed breaker counts what is left of the old process")
		}
		if got := f.Breakers().Workers[2]; got.Failing != 0 || got.Failures != 10 {
			t.Errorf("%d failures in a row, %d in all; want 0, 10", got.Failing, got.Failures)
		}
		times(9, func() { f.run(t, 0, 0, nil, sick()) })
		if f.barOf(f.decode[0], workers.Breaking) > 0 {
			t.Error("old failures count for the new process")
		}
	})
}
