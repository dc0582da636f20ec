package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"pdrouter/workers"
)

// heirs returns two processes' judges of workers of the same names.
func heirs(t *testing.T, cfg Config) (before, after *Judge, of, to *workers.Worker) {
	t.Helper()
	one, other := &workers.Worker{Spec: workers.Spec{URL: "http://p0"}, ID: "prefill-0"}, &workers.Worker{Spec: workers.Spec{URL: "http://p0"}, ID: "prefill-0"}
	first, second := &estateRegistry{all: []*workers.Worker{one}}, &estateRegistry{all: []*workers.Worker{other}}
	return NewJudge(cfg, first, func(Event) {}), NewJudge(cfg, second, func(Event) {}), one, other
}

// An estateRegistry has workers and keeps their bars.
type estateRegistry struct {
	all []*workers.Worker
	bar time.Time
}

func (r *estateRegistry) Statuses() (out []workers.Status) {
	for _, w := range r.all {
		out = append(out, workers.Status{Worker: w})
	}
	return out
}

func (r *estateRegistry) Bar(_ *workers.Worker, _ workers.Cause, until time.Time, _ string) {
	r.bar = until
}
func (r *estateRegistry) BarPair(_, _ *workers.Worker, until time.Time) { r.bar = until }
func (r *estateRegistry) Complete(*workers.Worker, int, string)         {}

// An open breaker stays open in the next process until the time at which it
// would have been tried, and its open time has grown as far.
func TestBreakersAreInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		before, after, of, to := heirs(t, cfg)
		old := before.ward(of).breaker
		for range 3 { // so that it is open for 240 s
			if old.trip("it is broken") {
				old.out.flush()
			}
			old.mu.Lock()
			old.state = gobreaker.StateHalfOpen
			old.mu.Unlock()
		}
		old.mu.Lock()
		old.state = gobreaker.StateOpen
		until := old.until
		old.mu.Unlock()
		time.Sleep(10 * time.Second)
		after.Inherit(before.Leave())
		b := after.ward(to).breaker
		if _, ok, _ := b.ask(); ok {
			t.Error("an open breaker lets somebody in after an upgrade")
		}
		if got := after.registry.(*estateRegistry).bar; got.Sub(until).Abs() > time.Second {
			t.Errorf("it is barred until %v, want %v as before", got, until)
		}
		time.Sleep(time.Until(until) + time.Second)
		p, ok, _ := b.ask()
		if !ok || p.done == nil {
			t.Fatal("nobody may try it when its time is over")
		}
		b.tell(p, verdict{kind: bad, err: errForced})
		if open := time.Until(b.until); open < 7*cfg.OpenTime/2 {
			t.Errorf("it is open for %v after a fourth opening, want it to have grown", open)
		}
	})
}

// What is closed, and who is not there, is nothing to inherit; who has seen for
// himself keeps to that.
func TestNothingToInherit(t *testing.T) {
	before, after, of, to := heirs(t, DefaultConfig())
	before.ward(of)
	if held := before.Leave(); len(held) != 0 {
		t.Errorf("left: %v, want nothing of a closed breaker", held)
	}
	gone := workers.Name{Role: workers.Decode, URL: "http://d9"}
	after.Inherit([]HeldBreaker{{Worker: gone}, {Worker: nameOf(to), Decode: &gone}})
	if !after.ward(to).breaker.closed() {
		t.Error("a breaker is open for somebody else's sake")
	}
	pair := &workers.Worker{Spec: workers.Spec{Role: workers.Decode, URL: "http://d9"}}
	after.registry.(*estateRegistry).all = append(after.registry.(*estateRegistry).all, pair)
	after.Inherit([]HeldBreaker{{Worker: nameOf(to), Decode: &gone, Until: time.Now().Add(time.Minute)}})
	if p := after.ward(to).pairOf(pair); p == nil || p.breaker.closed() || !after.ward(to).breaker.closed() {
		t.Error("a pair's breaker is not inherited as that of the pair")
	}
}
