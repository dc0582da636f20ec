package health

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/workers"
)

var _ workers.Judge = (*Judge)(nil)

func TestPermitTakesAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 2, 2)
		times(10, func() { f.run(t, 0, 1, sick(), nil) })
		times(10, func() { f.run(t, 1, 0, nil, sick()) })
		time.Sleep(75 * time.Second)
		// Both are half-open. decode-0's place is taken, so prefill-0's must not
		// be lost when the two are asked for together.
		trial := f.open(t, 1, 0)
		times(5, func() {
			if f.try(0, 0, nil, nil) {
				t.Fatal("a second request is let in to decode-0")
			}
		})
		if f.barOf(f.prefill[0], workers.Breaking) > 0 {
			t.Error("prefill-0 is barred, though nothing is under way there")
		}
		other := f.open(t, 0, 1)
		f.end(trial, nil, nil)
		f.end(other, nil, nil)
	})
}

func TestLegEndedTwicePanics(t *testing.T) {
	f := newFleet(DefaultConfig(), 1, 1)
	p := f.open(t, 0, 0)
	f.Ended(p, workers.Decode, nil)
	defer func() {
		if said, _ := recover().(string); !strings.HasPrefix(said, "health: the decode leg") {
			t.Errorf("it says %q", said)
		}
	}()
	f.Ended(p, workers.Decode, nil)
}

func TestLastWorkerOfItsRole(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *fleet){
		"500s in a row do not open it": func(t *testing.T, f *fleet) {
			times(3, func() {
				f.decoding(t, 1, nil)
				f.decoding(t, 3, sick())
			})
			f.decoding(t, 7, sick()) // 16 of 19
			if f.isOpen(f.decode[0]) {
				t.Error("it is open")
			}
		},
		"500s open it by ratio, for 2 s at most": func(t *testing.T, f *fleet) {
			f.decoding(t, 20, sick())
			if open := f.barOf(f.decode[0], workers.Breaking); open == 0 || open > lastOpen+pastExpiry {
				t.Errorf("it is open for %v", open)
			}
		},
		"a dead connection opens it for 2 s at most, however often": func(t *testing.T, f *fleet) {
			f.decoding(t, 10, gone())
			times(6, func() {
				open := f.barOf(f.decode[0], workers.Breaking)
				if open == 0 || open > lastOpen+pastExpiry {
					t.Errorf("it is open for %v", open)
				}
				time.Sleep(open)
				f.decoding(t, 1, gone())
			})
			time.Sleep(lastOpen + pastExpiry)
			f.decoding(t, 1, nil)
			a, b := f.open(t, 0, 0), f.open(t, 0, 0)
			f.end(a, nil, nil)
			f.end(b, nil, nil)
			if h := f.history(Breaker); h[len(h)-1] != "decode-0 half-open>closed" {
				t.Errorf("one good trial does not close it: %q", h)
			}
		},
		"500s before a dead connection do not make the row": func(t *testing.T, f *fleet) {
			f.decoding(t, 1, nil)
			f.decoding(t, 9, sick())
			f.decoding(t, 5, gone())
			if f.isOpen(f.decode[0]) {
				t.Error("it is open")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newFleet(DefaultConfig(), 2, 1)) })
		})
	}
}

// TestLastIsAskedOfWhoCanStandIn: another worker that is open, not ready, or
// serves another model does not make one spare.
func TestLastIsAskedOfWhoCanStandIn(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *fleet){
		"the other is open": func(t *testing.T, f *fleet) {
			times(10, func() { f.run(t, 0, 1, nil, gone()) })
			if f.barOf(f.decode[1], workers.Breaking) <= lastOpen+pastExpiry {
				t.Fatal("the first to open is not the last of its role")
			}
		},
		"the other is not ready": func(_ *testing.T, f *fleet) { f.statuses[2].State = workers.Unready },
		"the other serves another model": func(_ *testing.T, f *fleet) {
			f.statuses[1].Facts.Models = []string{"m"}
			f.statuses[2].Facts.Models = []string{"n"}
		},
		"the other speaks another dialect": func(_ *testing.T, f *fleet) {
			f.statuses[1].Facts.Dialect = "sglang"
			f.statuses[2].Facts.Dialect = "vllm-nixl"
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(DefaultConfig(), 1, 2)
				prepare(t, f)
				f.decoding(t, 10, gone())
				if open := f.barOf(f.decode[0], workers.Breaking); open == 0 || open > lastOpen+pastExpiry {
					t.Errorf("it is open for %v", open)
				}
			})
		})
	}
}

func TestWhoIsGoneIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 2, 2)
		times(3, func() { f.run(t, 0, 1, nil, untaken()) })
		late := f.open(t, 0, 1)
		f.statuses = slices.Delete(f.statuses, 3, 4)
		f.keep(f.Statuses())
		if _, ok := f.wards.Load(f.decode[1]); ok || f.ward(f.prefill[0]).pairOf(f.decode[1]) != nil {
			t.Error("decode-1 is remembered")
		}
		f.end(late, nil, sick())
		if n := len(f.Breakers().Workers); n != 3 {
			t.Errorf("%d workers are shown, want 3", n)
		}
	})
}

// TestWhoBecomesTheLastIsTriedSoon: a breaker that opened for a minute while
// another worker was there must not refuse everything when that one has gone.
func TestWhoBecomesTheLastIsTriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 1, 2)
		f.decoding(t, 10, gone())
		if open := f.barOf(f.decode[0], workers.Breaking); open <= lastOpen+pastExpiry {
			t.Fatalf("it is open for %v while another is there", open)
		}
		f.relieve(f.Statuses(), time.Now())
		if open := f.barOf(f.decode[0], workers.Breaking); open <= lastOpen+pastExpiry {
			t.Errorf("it is tried after %v though another is there", open)
		}

		f.statuses[2].State = workers.Draining
		f.relieve(f.Statuses(), time.Now())

		if open := f.barOf(f.decode[0], workers.Breaking); open == 0 || open > lastOpen+pastExpiry {
			t.Errorf("it is open for %v, being the last now", open)
		}
		time.Sleep(lastOpen + pastExpiry)
		f.decoding(t, 1, nil)
		if f.isOpen(f.decode[0]) {
			t.Error("one good trial does not close it")
		}
	})
}
