package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/workers"
)

// decoding runs n requests whose prefill leg is well.
func (f *fleet) decoding(t *testing.T, n int, outcome error) {
	t.Helper()
	times(n, func() { f.run(t, 0, 0, nil, outcome) })
}

func (f *fleet) isOpen(w *workers.Worker) bool { return f.barOf(w, workers.Breaking) > 0 }

func TestBreaker(t *testing.T) {
	cfg := DefaultConfig()
	for name, f := range map[string]func(*testing.T, *fleet){
		"opens at the tenth failure in a row, and says why": func(t *testing.T, f *fleet) {
			f.decoding(t, 9, sick())
			if f.isOpen(f.decode[0]) {
				t.Fatal("it is open after nine")
			}
			f.decoding(t, 1, sick())
			if !f.isOpen(f.decode[0]) || f.try(0, 0, nil, nil) {
				t.Fatal("it is not open after ten")
			}
			if got := f.reasonOf(f.decode[0], workers.Breaking); got != "breaker open: 10 requests failed in a row, the last: failed: status 500" {
				t.Errorf("the reason is %q", got)
			}
			if f.isOpen(f.prefill[0]) {
				t.Error("the innocent leg's breaker is open")
			}
		},
		"a success ends the row": func(t *testing.T, f *fleet) {
			f.decoding(t, 9, sick())
			f.decoding(t, 1, nil)
			f.decoding(t, 9, sick())
			if f.isOpen(f.decode[0]) {
				t.Error("it is open")
			}
		},
		"failures older than the window do not count": func(t *testing.T, f *fleet) {
			f.decoding(t, 9, sick())
			time.Sleep(cfg.Window + time.Second)
			f.decoding(t, 9, sick())
			if f.isOpen(f.decode[0]) {
				t.Error("it is open")
			}
		},
		"a stream longer than the window counts when it breaks": func(t *testing.T, f *fleet) {
			var streams []*workers.Permit
			times(10, func() { streams = append(streams, f.open(t, 0, 0)) })
			time.Sleep(3 * cfg.Window)
			for _, s := range streams {
				f.end(s, nil, sick())
			}
			if !f.isOpen(f.decode[0]) {
				t.Error("it is closed")
			}
		},
		"what was let in before it opened counts no more": func(t *testing.T, f *fleet) {
			late, lucky := f.open(t, 0, 0), f.open(t, 0, 0)
			f.decoding(t, 10, sick())
			before := f.barOf(f.decode[0], workers.Breaking)
			f.end(late, nil, sick())
			f.end(lucky, nil, nil)
			if got := f.barOf(f.decode[0], workers.Breaking); got != before {
				t.Errorf("the bar lasts %v, and %v before", got, before)
			}
			time.Sleep(before)
			trial := f.open(t, 0, 0)
			f.end(trial, nil, nil)
			if got := f.Breakers().Workers[2].Succeeding; got != 1 {
				t.Errorf("%d successes in a row, want the trial's alone", got)
			}
		},
		"half-open lets one in at a time and closes after three": func(t *testing.T, f *fleet) {
			f.decoding(t, 10, sick())
			time.Sleep(f.barOf(f.decode[0], workers.Breaking))
			for i := range 3 {
				trial := f.open(t, 0, 0)
				if got := f.reasonOf(f.decode[0], workers.Breaking); !strings.Contains(got, fmt.Sprintf("(%d of 3", i)) {
					t.Errorf("the reason during trial %d is %q", i, got)
				}
				time.Sleep(2 * trialBar)
				if f.try(0, 0, nil, nil) {
					t.Fatalf("a second request is let in beside trial %d", i)
				}
				if !f.isOpen(f.decode[0]) {
					t.Error("who is refused does not renew the bar")
				}
				f.end(trial, nil, nil)
				if f.isOpen(f.decode[0]) {
					t.Error("the bar outlives the trial")
				}
			}
			a, b := f.open(t, 0, 0), f.open(t, 0, 0)
			f.end(a, nil, nil)
			f.end(b, nil, nil)
			want := []string{"decode-0 closed>open", "decode-0 open>half-open", "decode-0 half-open>closed"}
			if got := f.history(Breaker); !slices.Equal(got, want) {
				t.Errorf("events are %q, want %q", got, want)
			}
		},
		"a failed trial opens it for longer, up to the cap": func(t *testing.T, f *fleet) {
			f.decoding(t, 10, sick())
			for i, want := range []time.Duration{1, 2, 4, 5, 5} {
				want *= time.Minute
				open := f.barOf(f.decode[0], workers.Breaking)
				if open < want*8/10 || open > min(want*12/10, longestOpen)+pastExpiry {
					t.Errorf("opening %d lasts %v, want about %v", i, open, want)
				}
				time.Sleep(open - 2*pastExpiry)
				if f.try(0, 0, nil, nil) {
					t.Fatal("it lets a request in before its time is over")
				}
				time.Sleep(2 * pastExpiry)
				f.decoding(t, 1, sick())
			}
		},
		"a closing in between makes the next opening short": func(t *testing.T, f *fleet) {
			times(3, func() {
				f.decoding(t, 10, sick())
				if open := f.barOf(f.decode[0], workers.Breaking); open > cfg.OpenTime*12/10+pastExpiry {
					t.Errorf("it is open for %v", open)
				}
				time.Sleep(f.barOf(f.decode[0], workers.Breaking))
				f.decoding(t, 3, nil)
			})
		},
		"a trial that we cancelled gives its place back and counts nothing": func(t *testing.T, f *fleet) {
			f.decoding(t, 10, sick())
			time.Sleep(f.barOf(f.decode[0], workers.Breaking))
			f.decoding(t, 5, left())
			f.decoding(t, 2, nil)
			f.decoding(t, 5, left())
			f.decoding(t, 5, busy(0))
			if len(f.history(Breaker)) != 2 {
				t.Fatalf("events are %q", f.history(Breaker))
			}
			f.decoding(t, 1, nil)
			if len(f.history(Breaker)) != 3 {
				t.Error("it did not close after three successes")
			}
		},
		"opens by ratio when failures do not come in a row": func(t *testing.T, f *fleet) {
			for range 3 {
				f.decoding(t, 1, nil)
				f.decoding(t, 5, sick())
			}
			if f.isOpen(f.decode[0]) {
				t.Fatal("it is open below the least number")
			}
			f.decoding(t, 2, sick())
			if !f.isOpen(f.decode[0]) {
				t.Error("it is closed with 17 of 20 failed")
			}
		},
		"every other request failing does not open it": func(t *testing.T, f *fleet) {
			times(100, func() {
				f.decoding(t, 1, sick())
				f.decoding(t, 1, nil)
			})
			if f.isOpen(f.decode[0]) {
				t.Error("it is open")
			}
		},
		"a leg that we cancelled counts nothing, either way": func(t *testing.T, f *fleet) {
			f.decoding(t, 9, sick())
			f.decoding(t, 50, left())
			if f.isOpen(f.decode[0]) {
				t.Fatal("it is open")
			}
			f.decoding(t, 1, sick())
			if !f.isOpen(f.decode[0]) {
				t.Error("cancelled legs ended the row")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newFleet(cfg, 2, 2)) })
		})
	}
}

func TestDisabledBreakersNeverOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.DisableBreakers = true
		f := newFleet(cfg, 2, 2)
		f.decoding(t, 100, sick())
		f.decoding(t, 100, untaken())
		if f.isOpen(f.decode[0]) || f.pairBarOf(f.prefill[0], f.decode[0]) > 0 {
			t.Error("something is barred")
		}
	})
}
