package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"pgregory.net/rapid"

	"pdrouter/workers"
)

// A model runs random requests against a Judge, and knows from outside what must
// hold at any time.
type model struct {
	*fleet
	open []*running
}

type running struct {
	permit *workers.Permit
	p, d   int
	ended  [2]bool
	begun  bool
}

func (m *model) begin(t *rapid.T) {
	p := rapid.IntRange(0, len(m.prefill)-1).Draw(t, "prefill")
	d := rapid.IntRange(0, len(m.decode)-1).Draw(t, "decode")
	asked := m.breakersOf(p, d)
	allClosed, taken := true, false
	for _, b := range asked {
		allClosed = allClosed && b.closed()
		taken = taken || b.isTrying()
	}
	permit := new(workers.Permit)
	ok := m.Permit(permit, m.prefill[p], m.decode[d])
	switch {
	case allClosed && !ok:
		t.Fatal("three closed breakers refuse a request")
	case taken && ok:
		t.Fatal("a second trial is let in")
	case ok:
		m.open = append(m.open, &running{permit: permit, p: p, d: d})
	}
}

// breakersOf returns the breakers of a pair.
func (m *model) breakersOf(p, d int) []*breaker {
	first := m.ward(m.prefill[p])
	all := []*breaker{first.breaker, m.ward(m.decode[d]).breaker}
	if both := first.pairOf(m.decode[d]); both != nil {
		all = append(all, both.breaker)
	}
	return all
}

func (b *breaker) isTrying() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trying
}

func (m *model) end(t *rapid.T) {
	if len(m.open) == 0 {
		t.Skip("nothing is under way")
	}
	r := m.open[rapid.IntRange(0, len(m.open)-1).Draw(t, "request")]
	role := workers.Role(rapid.IntRange(0, 1).Draw(t, "role"))
	if r.ended[role] {
		role = 1 - role
	}
	m.endLegOf(r, role, rapid.SampledFrom([]error{nil, nil, sick(), sick(), sick(), gone(), untaken(), untaken(), left(), busy(0)}).Draw(t, "outcome"))
}

func (m *model) endLegOf(r *running, role workers.Role, outcome error) {
	r.ended[role] = true
	m.Ended(r.permit, role, outcome)
	if r.ended[0] && r.ended[1] {
		for i := range m.open {
			if m.open[i] == r {
				m.open = append(m.open[:i], m.open[i+1:]...)
				return
			}
		}
	}
}

// token has the first token of a request come.
func (m *model) token(t *rapid.T) {
	for _, r := range m.open {
		if !r.begun && !r.ended[workers.Decode] {
			r.begun = true
			m.Began(r.permit)
			return
		}
	}
	t.Skip("nothing waits for a token")
}

// check compares what is published with the breakers' states.
func (m *model) check(t *rapid.T) {
	trials := map[*breaker]int{}
	for _, r := range m.open {
		first := m.ward(r.permit.Prefill)
		all := [3]*breaker{first.breaker, m.ward(r.permit.Decode).breaker}
		if both := first.pairOf(r.permit.Decode); both != nil {
			all[ofPair] = both.breaker
		}
		over := [3]bool{r.ended[0], r.ended[1], r.ended[0] && r.ended[1]}
		for place, b := range all {
			if b != nil && r.permit.Done[place] != nil && !over[place] && r.permit.Epoch[place] == b.epochNow() {
				trials[b]++
			}
		}
	}
	for _, w := range append(append([]*workers.Worker(nil), m.prefill...), m.decode...) {
		m.checkBreaker(t, m.ward(w).breaker, m.barOf(w, workers.Breaking), trials)
		for _, p := range m.ward(w).allPairs() {
			m.checkBreaker(t, p.breaker, m.pairBarOf(p.prefill, p.decode), trials)
		}
	}
}

func (b *breaker) epochNow() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.epoch
}

func (m *model) checkBreaker(t *rapid.T, b *breaker, bar time.Duration, trials map[*breaker]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := b.gate.Counts()
	switch b.state {
	case gobreaker.StateClosed:
		if bar > 0 || trials[b] > 0 || b.trying {
			t.Fatalf("closed, but barred for %v, with %d trials", bar, trials[b])
		}
	case gobreaker.StateOpen:
		if over := time.Now().After(b.barEnd()); bar == 0 && !over {
			t.Fatal("open, but not barred")
		}
	case gobreaker.StateHalfOpen:
		if trials[b] > 1 || b.trying != (trials[b] == 1) {
			t.Fatalf("half-open with %d trials under way; it believes %v", trials[b], b.trying)
		}
		if held := int(counts.Requests) - int(counts.TotalExclusions); held != trials[b] {
			t.Fatalf("gobreaker counts %d trials, %d are under way", held, trials[b])
		}
		if trials[b] == 0 && bar > 0 {
			t.Fatal("half-open without a trial, but barred")
		}
	}
	if got := gobreakerState(b); got != b.state && got != gobreaker.StateHalfOpen {
		t.Fatalf("it is %v, gobreaker is %v", b.state, got)
	}
}

// gobreakerState asks without letting the answer change b: an open one whose
// time is over becomes half-open by being asked.
func gobreakerState(b *breaker) gobreaker.State {
	if b.state == gobreaker.StateOpen {
		return b.state
	}
	return b.gate.State()
}

// barEnd returns when the bar that was put last ends.
func (b *breaker) barEnd() time.Time {
	b.out.mu.Lock()
	defer b.out.mu.Unlock()
	return b.out.until
}

// TestModel: rapid must not ask for the deadline inside the bubble, so it is shown
// less of the test than there is. Whatever happens, permits never leak, there is one trial at most,
// closed breakers refuse nobody, and bars match the state. At the end all legs
// are ended, and everything can be brought back by requests that succeed.
func TestModel(t *testing.T) {
	for range 20 { // rapid ends a day after it began, and the bubble's days are short
		synctest.Test(t, func(st *testing.T) {
			rapid.Check(struct{ rapid.TB }{st}, func(t *rapid.T) {
				cfg := DefaultConfig()
				cfg.FailureThreshold = rapid.IntRange(1, 4).Draw(t, "failures")
				cfg.SuccessThreshold = rapid.IntRange(1, 3).Draw(t, "successes")
				cfg.MinRequests = rapid.IntRange(1, 8).Draw(t, "least")
				m := &model{fleet: newFleet(cfg, rapid.IntRange(1, 3).Draw(t, "prefills"), rapid.IntRange(1, 3).Draw(t, "decodes"))}
				t.Repeat(map[string]func(*rapid.T){
					"begin":  m.begin,
					"begin2": m.begin,
					"end":    m.end,
					"end2":   m.end,
					"token":  m.token,
					"wait":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 90).Draw(t, "s")) * time.Second) },
					"restart": func(t *rapid.T) {
						w := m.decode[rapid.IntRange(0, len(m.decode)-1).Draw(t, "decode")]
						now := time.Now()
						m.Reported(w, workers.Report{At: now, Started: now.Add(-time.Hour)}, workers.Report{At: now, Started: now}, nil)
					},
					"": m.check,
				})
				m.recover(t)
			})
		})
	}
}

// recover ends all that is under way, and brings every worker back.
func (m *model) recover(t *rapid.T) {
	for len(m.open) > 0 {
		r := m.open[0]
		for role := range workers.Role(2) {
			if !r.ended[role] {
				m.endLegOf(r, role, left())
			}
		}
	}
	for p := range m.prefill {
		for d := range m.decode {
			for range m.cfg.SuccessThreshold {
				for _, b := range m.breakersOf(p, d) {
					time.Sleep(time.Until(b.barEnd()))
				}
				if !m.try(p, d, nil, nil) {
					t.Fatal("a permit has leaked: the pair lets nobody in any more")
				}
			}
			for _, b := range m.breakersOf(p, d) {
				if !b.closed() {
					t.Fatal("it does not close")
				}
			}
		}
	}
	m.check(t)
}
