package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/workers"
)

func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want outcomeKind
	}{
		"nothing went wrong":                  {nil, didWell},
		"we cancelled it":                     {left(), saysNothing},
		"a fault that wraps our cancellation": {&workers.Fault{Kind: workers.Failed, Err: context.Canceled}, failed},
		"a fault inside another error":        {fmt.Errorf("attempt: %w", untaken()), handOff},
		"a deadline of ours":                  {context.DeadlineExceeded, failed},
		"an error that is no fault":           {io.ErrUnexpectedEOF, failed},
		"429":                                 {busy(0), tooBusy},
		"a reset":                             {gone(), failed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := classify(c.err); got.kind != c.want {
				t.Errorf("classify(%v) = %v, want %v", c.err, got.kind, c.want)
			}
		})
	}
}

func TestHandOffs(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*testing.T, *fleet)
		open []string // pairs and workers whose breakers have opened
	}{
		"a pair that fails alone is charged alone": {
			func(t *testing.T, f *fleet) { times(10, func() { f.run(t, 0, 0, nil, untaken()) }) },
			[]string{"prefill-0+decode-0"},
		},
		"nine are not enough": {
			func(t *testing.T, f *fleet) { times(9, func() { f.run(t, 0, 0, nil, untaken()) }) },
			nil,
		},
		"prefill says it of the pair, too": {
			func(t *testing.T, f *fleet) { times(10, func() { f.run(t, 0, 0, untaken(), left()) }) },
			[]string{"prefill-0+decode-0"},
		},
		"a prefill that fails with two partners is charged itself": {
			func(t *testing.T, f *fleet) {
				times(5, func() { f.run(t, 0, 0, nil, untaken()) })
				times(5, func() { f.run(t, 0, 1, nil, untaken()) })
			},
			[]string{"prefill-0"},
		},
		"a decode that fails with two partners is charged itself": {
			func(t *testing.T, f *fleet) {
				times(5, func() { f.run(t, 0, 0, nil, untaken()) })
				times(5, func() { f.run(t, 1, 0, nil, untaken()) })
			},
			[]string{"decode-0"},
		},
		"when everything fails, the pairs are charged and nobody else": {
			func(t *testing.T, f *fleet) {
				times(9, func() {
					f.run(t, 0, 0, nil, untaken())
					f.run(t, 1, 1, nil, untaken())
					f.run(t, 0, 1, nil, untaken())
					f.run(t, 1, 0, nil, untaken())
				})
				f.run(t, 0, 0, nil, untaken())
			},
			[]string{"prefill-0+decode-0"},
		},
		"one that works with others is not charged for one partner": {
			func(t *testing.T, f *fleet) {
				f.run(t, 0, 1, nil, untaken())
				f.run(t, 0, 1, nil, nil)
				times(10, func() { f.run(t, 0, 0, nil, untaken()) })
			},
			[]string{"prefill-0+decode-0"},
		},
		"a hand-off that works ends the row": {
			func(t *testing.T, f *fleet) {
				f.run(t, 0, 1, nil, untaken())
				times(5, func() { f.run(t, 0, 0, nil, untaken()) })
				f.run(t, 0, 0, nil, nil)
				times(5, func() { f.run(t, 0, 0, nil, untaken()) })
			},
			nil,
		},
		"the last of its role is not charged": {
			func(t *testing.T, f *fleet) {
				f.statuses[1].State = workers.Unready
				times(9, func() { f.run(t, 0, 0, nil, untaken()) })
				times(9, func() { f.run(t, 0, 1, nil, untaken()) })
			},
			nil,
		},
		"a partner that was restarted does not count": {
			func(t *testing.T, f *fleet) {
				f.run(t, 0, 0, nil, untaken())
				f.restarted(f.ward(f.decode[0]), "")
				times(9, func() { f.run(t, 0, 1, nil, untaken()) })
			},
			nil,
		},
		"partners of long ago do not count": {
			func(t *testing.T, f *fleet) {
				times(5, func() { f.run(t, 0, 1, nil, untaken()) })
				time.Sleep(3 * time.Minute)
				times(9, func() { f.run(t, 0, 0, nil, untaken()) })
			},
			nil,
		},
		"a prefill that died explains it": {
			func(t *testing.T, f *fleet) { times(10, func() { f.run(t, 0, 0, gone(), untaken()) }) },
			[]string{"prefill-0"},
		},
		"a prefill that was too busy explains it": {
			func(t *testing.T, f *fleet) { times(20, func() { f.run(t, 0, 0, busy(0), untaken()) }) },
			nil,
		},
		"a leg that we cancelled says nothing of the pair": {
			func(t *testing.T, f *fleet) { times(50, func() { f.run(t, 0, 0, nil, left()) }) },
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(DefaultConfig(), 2, 2)
				c.do(t, f)
				var open []string
				for _, line := range f.history(Breaker) {
					if who, ok := strings.CutSuffix(line, " closed>open"); ok {
						open = append(open, who)
					}
				}
				if !slices.Equal(open, c.open) {
					t.Errorf("breakers opened: %q, want %q", open, c.open)
				}
			})
		})
	}
}

// TestPrefillLegsDoNotHideBrokenHandOffs: each of them is a success as such.
func TestAccusedWorkerIsTriedByHandOffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 2, 4)
		for i := range 10 {
			f.run(t, 0, i%4, nil, untaken())
		}
		if got := f.reasonOf(f.prefill[0], workers.Breaking); !strings.Contains(got, "10 hand-offs in a row failed, with 4 partners") {
			t.Fatalf("the reason is %q", got)
		}
		time.Sleep(f.barOf(f.prefill[0], workers.Breaking))
		f.run(t, 0, 0, nil, untaken())
		if f.barOf(f.prefill[0], workers.Breaking) < cfgOpen() {
			t.Error("a trial whose hand-off failed did not open it again, for longer")
		}
		time.Sleep(f.barOf(f.prefill[0], workers.Breaking))
		times(3, func() { f.run(t, 0, 1, nil, nil) })
		if h := f.history(Breaker); h[len(h)-1] != "prefill-0 half-open>closed" {
			t.Errorf("events end with %q", h[len(h)-1])
		}
	})
}

// TestATrialMayFailByItsHandOff: in doubt already, two partners are enough.
func TestATrialMayFailByItsHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 2, 2)
		times(10, func() { f.run(t, 0, 0, sick(), left()) })
		time.Sleep(f.barOf(f.prefill[0], workers.Breaking))
		f.run(t, 0, 0, nil, untaken())
		f.run(t, 0, 1, nil, untaken())
		if f.barOf(f.prefill[0], workers.Breaking) < cfgOpen() {
			t.Error("it is not open again")
		}
	})
}

func cfgOpen() time.Duration { return DefaultConfig().OpenTime }

// TestTheOnlyPairStays: where nothing else is left, a pair opens by ratio and for
// 2 s.
func TestTheOnlyPairStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 1, 1)
		f.decoding(t, 19, untaken())
		if f.pairBarOf(f.prefill[0], f.decode[0]) > 0 {
			t.Fatal("it is open")
		}
		f.decoding(t, 1, untaken())
		if open := f.pairBarOf(f.prefill[0], f.decode[0]); open == 0 || open > lastOpen+pastExpiry {
			t.Errorf("it is open for %v", open)
		}
	})
}

// TestTheLastPairStays: it is not the only one, but the other is open.
func TestTheLastPairStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 1, 2)
		times(10, func() { f.run(t, 0, 0, nil, untaken()) })
		if f.pairBarOf(f.prefill[0], f.decode[0]) <= lastOpen+pastExpiry {
			t.Fatal("the first pair is not open for long")
		}
		times(19, func() { f.run(t, 0, 1, nil, untaken()) })
		if f.pairBarOf(f.prefill[0], f.decode[1]) > 0 {
			t.Fatal("the last pair is open")
		}
		f.run(t, 0, 1, nil, untaken())
		if open := f.pairBarOf(f.prefill[0], f.decode[1]); open == 0 || open > lastOpen+pastExpiry {
			t.Errorf("the last pair is open for %v", open)
		}
	})
}

func TestBackpressureIsNoFault(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *fleet){
		"pauses double to a second, and start again after a success": func(t *testing.T, f *fleet) {
			for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
				f.decoding(t, 3, busy(0)) // those who come together count once
				if got := f.barOf(f.decode[0], workers.Backpressure); got != want*time.Millisecond {
					t.Errorf("the pause is %v, want %v", got, want*time.Millisecond)
				}
				time.Sleep(want*time.Millisecond + 1)
			}
			f.decoding(t, 1, nil)
			f.decoding(t, 1, busy(0))
			if got := f.barOf(f.decode[0], workers.Backpressure); got != firstPause {
				t.Errorf("the pause after a success is %v", got)
			}
		},
		"Retry-After is honoured, up to 5 s": func(t *testing.T, f *fleet) {
			f.decoding(t, 1, busy(3*time.Second))
			if got := f.barOf(f.decode[0], workers.Backpressure); got != 3*time.Second {
				t.Errorf("the pause is %v", got)
			}
			f.decoding(t, 1, busy(0))
			if got := f.barOf(f.decode[0], workers.Backpressure); got != 3*time.Second {
				t.Errorf("a shorter pause takes the place of a longer: %v", got)
			}
			f.decoding(t, 1, busy(time.Hour))
			if got := f.barOf(f.decode[0], workers.Backpressure); got != mostAsked {
				t.Errorf("the pause is %v", got)
			}
		},
		"no breaker opens, however often": func(t *testing.T, f *fleet) {
			times(1000, func() { f.decoding(t, 1, fmt.Errorf("leg: %w", busy(0))) })
			if h := f.history(Breaker); len(h) > 0 {
				t.Errorf("events: %q", h)
			}
			if f.barOf(f.prefill[0], workers.Backpressure) > 0 {
				t.Error("prefill is barred for decode's backpressure")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newFleet(DefaultConfig(), 1, 1)) })
		})
	}
}

func TestBriefCutsLongReasons(t *testing.T) {
	if got := brief(errors.New(strings.Repeat("x", 1000))); len(got) > maxReason+3 {
		t.Errorf("%d bytes are left", len(got))
	}
}
