package workers

import "testing"

// A burst is 400 requests at once, before two engines that hold 40 together.
type burst struct {
	name      string
	documents bool    // as in the public trace; else short prompts with answers as there
	every     float64 // seconds between reports
	old       float64 // how old they are when they come
	limit     int     // that requests give; 0: none
	cold      bool    // nothing was learnt before
	early     bool    // engines are told of a request at its grant
	block     int     // tokens
	routers   int     // each sends its part
	bound     float64 // of the time that it takes, as a multiple of the ideal; 0: none
}

// run returns how long a burst took, and how long it takes if one router knows
// all lengths and what is in the engines.
func (b *burst) run(t *testing.T, seed uint64) (took, ideal float64, preempted int) {
	t.Helper()
	requests := func(n int, seed uint64) []*modelRequest {
		if b.documents {
			return documents(t, n, b.limit, seed)
		}
		return chat(t, n, 1, b.limit, seed)
	}
	reqs := requests(400, 100+seed)
	fleet := func(routers int) *model {
		m := newModel(2, blocksFor(reqs, 40, b.block), b.block, routers)
		m.every, m.old, m.early = b.every, b.old, b.early
		return m
	}
	knowing := fleet(1)
	knowing.routers[0].oracle = true
	ideal, _ = knowing.run(t, clones(reqs))
	m := fleet(b.routers)
	warm, parts := make([][]*modelRequest, b.routers), make([][]*modelRequest, b.routers)
	for i := range parts {
		warm[i] = spaced(requests(100, 10+seed), 1.5)
		parts[i] = reqs[i*len(reqs)/b.routers : (i+1)*len(reqs)/b.routers]
	}
	if !b.cold {
		m.run(t, warm...)
	}
	took, preempted = m.run(t, parts...)
	return took, ideal, preempted
}

// TestBurstWaits: of a burst of ten times what engines hold, what has no space
// waits. No engine preempts, and all have ended about as soon as if everything
// were known. What two routers have to leave to each other costs more, most of
// all when the slower one begins its longest answer last.
func TestBurstWaits(t *testing.T) {
	for _, b := range []burst{
		{"reports of now", false, 1, 0, 2000, false, false, 16, 1, 1.2},
		{"reports 5 s old", false, 1, 5, 2000, false, false, 16, 1, 1.2},
		{"a report in 5 s", false, 5, 0, 2000, false, false, 16, 1, 1.2},
		{"no limit", false, 1, 0, 0, false, false, 16, 1, 1.2},
		{"no limit, reports 5 s old, large blocks", false, 1, 5, 0, false, false, 128, 1, 1.2},
		{"blocks at the grant", false, 1, 0, 2000, false, true, 16, 1, 1.2},
		{"cold", false, 1, 0, 2000, true, false, 16, 1, 0},
		{"cold, no limit", false, 1, 0, 0, true, false, 16, 1, 0},
		{"two routers", false, 1, 0, 2000, false, false, 16, 2, 1.2},
		{"two routers, reports 5 s old", false, 1, 5, 2000, false, false, 16, 2, 1.3},
		{"two routers, blocks at the grant, no limit", false, 1, 0, 0, false, true, 16, 2, 1.3},
		{"two routers, cold", false, 1, 0, 2000, true, false, 16, 2, 0},
		{"documents", true, 1, 0, 2000, false, false, 16, 1, 1.2},
		{"documents, reports 5 s old, no limit", true, 1, 5, 0, false, false, 128, 1, 1.2},
		{"documents, blocks at the grant", true, 1, 0, 2000, false, true, 128, 1, 1.2},
		{"documents, cold, no limit", true, 1, 0, 0, true, false, 16, 1, 0},
		{"documents, two routers", true, 1, 0, 2000, false, false, 16, 2, 1.2},
		{"documents, two routers, reports 5 s old", true, 1, 5, 2000, false, false, 16, 2, 1.2},
		{"documents, two routers, blocks at the grant", true, 1, 0, 0, false, true, 16, 2, 1.3},
		{"documents, two routers, cold", true, 1, 0, 2000, true, false, 16, 2, 0},
	} {
		t.Run(b.name, func(t *testing.T) {
			const seeds = 2
			sum := 0.0
			for seed := range uint64(seeds) {
				took, ideal, preempted := b.run(t, seed)
				if preempted > 0 {
					t.Errorf("seed %d: %d requests were preempted", seed, preempted)
				}
				sum += took / ideal / seeds
			}
			t.Logf("%.2f times the ideal", sum)
			if b.bound > 0 && sum > b.bound {
				t.Errorf("%.2f times the ideal, want %.2f at most", sum, b.bound)
			}
		})
	}
}
