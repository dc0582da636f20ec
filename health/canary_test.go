package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"pdrouter/workers"
)

// A mine is a fleet with canaries, and what they were sent through.
type mine struct {
	*fleet
	sent   []string // p-d
	at     []time.Duration
	breaks map[string]error // by pair
}

// dig returns a fleet whose workers all fit one another.
func dig(every time.Duration, prefill, decode int) *mine {
	cfg := DefaultConfig()
	cfg.CanaryInterval = every
	m := &mine{fleet: newFleet(cfg, prefill, decode), breaks: map[string]error{}}
	for i := range m.statuses {
		m.statuses[i].Facts = workers.Facts{Dialect: "sglang", Models: []string{"m"}}
	}
	return m
}

// work runs canaries for a while.
func (m *mine) work(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	began := time.Now()
	c := NewCanaries(m.Judge, func(_ context.Context, prefill, decode *workers.Worker) error {
		permit := new(workers.Permit)
		if m.pairBarOf(prefill, decode) > 0 || !m.Permit(permit, prefill, decode) {
			return &workers.NoneError{Mismatch: true}
		}
		name := fmt.Sprintf("%s-%s", strings.TrimPrefix(prefill.ID, "prefill-"), strings.TrimPrefix(decode.ID, "decode-"))
		m.sent, m.at = append(m.sent, name), append(m.at, time.Since(began))
		err := m.breaks[name]
		m.end(permit, nil, err)
		return err
	})
	var g errgroup.Group
	g.Go(func() error { return c.Run(ctx) })
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestCanaries(t *testing.T) {
	const every = 30 * time.Second
	for name, c := range map[string]struct {
		do   func(*testing.T, *mine)
		want string
	}{
		"one per interval, each worker early, each pair in turn": {func(t *testing.T, m *mine) {
			m.work(t, 9*every+time.Second)
		}, "0-0 1-1 0-1 1-0 0-0 1-1 0-1 1-0 0-0"},
		"a pair that has requests has no canaries": {func(t *testing.T, m *mine) {
			var g errgroup.Group
			g.Go(func() error {
				times(16, func() {
					m.run(t, 0, 0, nil, nil)
					time.Sleep(10 * time.Second)
				})
				return nil
			})
			m.work(t, 5*every+time.Second)
			_ = g.Wait()
		}, "1-1 0-1 1-0 1-1 0-1"},
		"a worker that is barred or unready has none": {func(t *testing.T, m *mine) {
			m.statuses[0].Bars = []workers.Bar{{Cause: workers.Probing}}
			m.statuses[2].State = workers.Draining
			m.work(t, 3*every+time.Second)
		}, "1-1 1-1 1-1"},
		"workers that do not fit have none": {func(t *testing.T, m *mine) {
			m.statuses[0].Facts.PageSize, m.statuses[3].Facts.PageSize = 1, 64
			m.work(t, 4*every+time.Second)
		}, "0-0 1-1 1-0 0-0"},
		"one that failed is tried again every other time": {func(t *testing.T, m *mine) {
			m.breaks["1-1"] = untaken()
			m.work(t, 8*every+time.Second)
		}, "0-0 1-1 0-1 1-1 1-0 1-1 0-0 1-1"},
		"a pair that its breaker bars is passed over": {func(t *testing.T, m *mine) {
			m.pairBars[[2]*workers.Worker{m.prefill[1], m.decode[1]}] = time.Now().Add(time.Hour)
			m.work(t, 4*every+time.Second)
		}, "0-0 0-1 1-0 0-0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := dig(every, 2, 2)
				c.do(t, m)
				if got := strings.Join(m.sent, " "); got != c.want {
					t.Errorf("canaries went through %q, want %q", got, c.want)
				}
				for i, at := range m.at {
					if at < time.Duration(i+1)*every {
						t.Errorf("canary %d was sent after %v", i, at)
					}
				}
			})
		})
	}
}

// TestCanaryTells: that a pair fails, or works again, is an event once; that it
// cannot be said is none.
func TestCanaryTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := dig(time.Second, 1, 1)
		outcomes := []error{errors.New("refused"), untaken(), untaken(), errors.New("refused"), nil, nil}
		c := NewCanaries(m.Judge, func(context.Context, *workers.Worker, *workers.Worker) error {
			next := outcomes[0]
			outcomes = outcomes[1:]
			return next
		})
		for len(outcomes) > 0 {
			time.Sleep(time.Second)
			c.round(t.Context())
		}
		if want := []string{"prefill-0+decode-0 working>failing", "prefill-0+decode-0 failing>working"}; !slices.Equal(m.history(Canary), want) {
			t.Errorf("events are %q, want %q", m.history(Canary), want)
		}
		m.statuses = nil
		c.failing[couple{m.prefill[0], m.decode[0]}] = true
		c.round(t.Context())
		if len(c.failing) > 0 {
			t.Error("workers that are gone are remembered")
		}
	})
}

// TestCanaryIsTheTrial: once a breaker's open time is over, the canary may be
// what tries it, and not a client's request.
func TestCanaryIsTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := dig(10*time.Second, 2, 2)
		times(10, func() { m.run(t, 0, 0, nil, sick()) })
		m.breaks["0-0"], m.breaks["1-0"] = sick(), sick()
		m.work(t, m.cfg.OpenTime/2)
		if slices.Contains(m.sent, "0-0") || slices.Contains(m.sent, "1-0") {
			t.Errorf("canaries went through %q, past an open breaker", m.sent)
		}
		m.work(t, 2*m.cfg.OpenTime)
		want := []string{"decode-0 closed>open", "decode-0 open>half-open", "decode-0 half-open>open"}
		if got := m.history(Breaker); len(got) < 3 || !slices.Equal(got[:3], want) {
			t.Errorf("events are %q, want %q", got, want)
		}
	})
}

func TestNoCanariesByDefault(t *testing.T) {
	f := newFleet(DefaultConfig(), 1, 1)
	if err := NewCanaries(f.Judge, nil).Run(t.Context()); err != nil {
		t.Error(err)
	}
	f.run(t, 0, 0, nil, nil)
	if len(f.ward(f.prefill[0]).used) > 0 {
		t.Error("uses are noted for nobody")
	}
}
