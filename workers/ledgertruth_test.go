package workers

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// watched is what watch has seen.
type watched struct {
	off  []float64
	used float64 // sum of the shares of the capacity that were in use
}

// at returns how far off a share of the samples is at most.
func (w *watched) at(share float64) float64 {
	slices.Sort(w.off)
	return w.off[int(share*float64(len(w.off)-1))]
}

func (w *watched) mean() float64 { return w.used / float64(len(w.off)) }

// watch samples until some time how far ledgers are from what their engines hold, as a share
// of the capacity, ten times a second.
func watch(m *model, until float64) *watched {
	w := &watched{}
	next := m.now
	m.trace = func(m *model) {
		if m.now < next || m.now > until {
			return
		}
		next += 0.1
		for i, l := range m.routers[0].ledgers {
			w.off = append(w.off, math.Abs(l.status(m.clock()).Used-m.engines[i].used())/m.capacity())
			w.used += m.engines[i].used() / m.capacity()
		}
	}
	return w
}

// arriving lets reqs come at random, so that engines of so many blocks are in
// use to a share of load. It returns how long they take to come.
func arriving(m *model, reqs []*modelRequest, load float64) {
	work := 0.0 // token seconds
	step := m.itl * 1.4
	for _, q := range reqs {
		work += (float64(q.prompt) + float64(q.answer)/2) * float64(q.answer) * step
	}
	gap := work / float64(len(reqs)) / (load * m.capacity() * float64(len(m.engines)))
	at := 0.0
	for _, q := range reqs {
		at += m.dice.ExpFloat64() * gap
		q.at = at
	}
}

func TestLedgerIsTrue(t *testing.T) {
	for _, kind := range []struct {
		name string
		reqs []*modelRequest
	}{{"chat", chat(t, 900, 1, 0, 1)}, {"documents", documents(t, 900, 0, 1)}} {
		for _, tt := range []struct {
			every, old float64
			block      int
			early      bool
			usage      bool
		}{{1, 0, 16, false, true}, {1, 5, 16, false, true}, {5, 0, 128, false, true}, {1, 1, 16, true, true}, {1, 0, 16, false, false}} {
			t.Run(fmt.Sprintf("%s, every %v s, %v s old, early %t, usage %t", kind.name, tt.every, tt.old, tt.early, tt.usage), func(t *testing.T) {
				reqs := clones(kind.reqs)
				m := newModel(2, blocksFor(reqs, 40, tt.block), tt.block, 1)
				m.every, m.old, m.early, m.usage = tt.every, tt.old, tt.early, tt.usage
				arriving(m, reqs, 1.1)
				m.run(t, reqs[:100])
				for _, q := range reqs[100:] {
					q.at -= reqs[99].at
				}
				w := watch(m, m.now+reqs[len(reqs)-1].at)
				_, preempted := m.run(t, reqs[100:])
				t.Logf("%.2f in use, off by %.3f in the middle, %.3f at 99 %%, %.3f at most", w.mean(), w.at(0.5), w.at(0.99), w.at(1))
				if w.at(0.99) > 0.05 || preempted > 0 {
					t.Errorf("off by %.3f at 99 %%, %d preempted", w.at(0.99), preempted)
				}
			})
		}
	}
}

// TestWrongGuessesAreBounded: answers become ten times as long, or as short,
// as any before. The ledger stays near the truth, and soon no engine preempts.
func TestWrongGuessesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after float64
	}{{"longer", 0.2, 2}, {"shorter", 2, 0.2}} {
		t.Run(tt.name, func(t *testing.T) {
			reqs := chat(t, 400, tt.after, 0, 1)
			blocks := blocksFor(chat(t, 400, 2, 0, 1), 40, 16)
			m := newModel(2, blocks, 16, 1)
			m.run(t, spaced(chat(t, 300, tt.before, 0, 2), 0.3))
			w := watch(m, math.Inf(1))
			first, preempted := m.run(t, clones(reqs))
			again, later := m.run(t, clones(reqs))
			m = newModel(2, blocks, 16, 1)
			m.routers[0].oracle = true
			ideal, _ := m.run(t, clones(reqs))
			t.Logf("%.2f times the ideal, then %.2f; %d preempted, then %d; off by %.3f at 99 %%, %.3f at most", first/ideal, again/ideal, preempted, later, w.at(0.99), w.at(1))
			if again > 1.3*ideal || later > 0 || w.at(0.99) > 0.05 || w.at(1) > 0.2 {
				t.Errorf("%.2f times the ideal, %d preempted; off by %.3f at 99 %%, %.3f at most", again/ideal, later, w.at(0.99), w.at(1))
			}
		})
	}
}
