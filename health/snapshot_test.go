package health

import (
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/metrics"
	"pdrouter/workers"
)

func TestBreakersAreShownFromTheStart(t *testing.T) {
	all := newFleet(DefaultConfig(), 2, 1).Breakers()
	if len(all.Workers) != 3 || len(all.Pairs) != 0 || all.Workers[2].Worker != "http://decode0" || all.Workers[2].State != metrics.BreakerClosed {
		t.Errorf("Breakers = %+v", all)
	}
}

func TestBreakersShowWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(DefaultConfig(), 2, 2)
		f.run(t, 0, 0, nil, nil)
		times(10, func() { f.run(t, 0, 0, nil, sick()) })
		f.run(t, 1, 1, nil, untaken())
		if pairs := f.Breakers().Pairs; len(pairs) != 0 {
			t.Errorf("pairs that are closed are shown: %+v", pairs)
		}
		times(9, func() { f.run(t, 1, 1, nil, untaken()) })
		open := f.Breakers()
		d := open.Workers[2]
		if d.State != metrics.BreakerOpen || d.Failing != 10 || d.Failures != 10 || d.Successes != 1 || d.Moves[metrics.BreakerClosed][metrics.BreakerOpen] != 1 {
			t.Errorf("the open one is shown as %+v", d)
		}
		if p := open.Pairs[0]; len(open.Pairs) != 1 || p.Prefill != "http://prefill1" || p.Decode != "http://decode1" || p.Failures != 10 || p.State != metrics.BreakerOpen {
			t.Errorf("pairs are shown as %+v", open.Pairs)
		}
		time.Sleep(f.barOf(f.decode[0], workers.Breaking))
		p := f.open(t, 0, 0)
		if got := f.Breakers().Workers[2]; got.State != metrics.BreakerHalfOpen || got.Moves[metrics.BreakerOpen][metrics.BreakerHalfOpen] != 1 {
			t.Errorf("the half-open one is shown as %+v", got)
		}
		f.end(p, nil, nil)
	})
}
