package workers

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A modelled request, and what became of it.
type modelRequest struct {
	at             float64 // seconds
	prompt, answer int     // tokens
	limit          int     // what it says that the answer may have; 0: it does not say

	claim claim
}

// A modelRouter lets requests wait until a ledger has space for them. With an
// oracle it knows all lengths, and how full each engine is.
type modelRouter struct {
	ledgers []*ledger
	habits  *habits
	queue   []*modelRequest
	oracle  bool
	open    [][]*modelClaim
	told    []Report // on their way
}

// A model is engines, prefill workers before them and routers.
type model struct {
	engines  []*modelEngine
	routers  []*modelRouter
	prefill  []float64 // when each prefill worker is free
	perToken float64   // seconds of prefill
	every    float64   // seconds between reports
	old      float64   // seconds that a report takes to come
	early    bool      // engines are told of a request when it is granted, and give it blocks at once
	usage    bool      // answers say how many tokens they had
	itl      float64   // of an engine that runs one request
	now      float64
	dice     *rand.Rand
	sent     []*modelClaim // being prefilled
	trace    func(m *model)
	ends     []float64 // when requests ended
}

func newModel(engines, blocks, block, routers int) *model {
	m := &model{prefill: make([]float64, 16), perToken: 1 / 10e3, every: 1, itl: 0.02, usage: true, dice: rand.New(rand.NewPCG(1, 2))}
	for range engines {
		m.engines = append(m.engines, &modelEngine{blocks: blocks, block: block, free: blocks})
	}
	for range routers {
		r := &modelRouter{habits: newHabits(), open: make([][]*modelClaim, engines)}
		for range engines {
			r.ledgers = append(r.ledgers, &ledger{})
		}
		m.routers = append(m.routers, r)
	}
	return m
}

func modelTime(s float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(s * float64(time.Second)))
}

func (m *model) clock() time.Time { return modelTime(m.now) }

// capacity returns how many tokens an engine holds.
func (m *model) capacity() float64 { return float64(m.engines[0].blocks * m.engines[0].block) }

// run lets each router's requests come, and goes on until the last has ended.
func (m *model) run(t *testing.T, reqs ...[]*modelRequest) (seconds float64, preempted int) {
	t.Helper()
	begin := m.now
	for _, part := range reqs {
		for _, q := range part {
			q.at += begin
		}
	}
	next := make([]int, len(reqs))
	left := 0
	for _, part := range reqs {
		left += len(part)
	}
	before := 0
	for _, e := range m.engines {
		before += e.preempted
	}
	nextTell := make([]float64, len(m.engines))
	for i := range nextTell {
		nextTell[i] = math.Ceil(m.now/m.every)*m.every + float64(i)*0.01
	}
	tick, ends := 0, len(m.ends)
	for m.now-begin < 20000 && left > 0 {
		for i, r := range m.routers {
			if i >= len(reqs) {
				break
			}
			for ; next[i] < len(reqs[i]) && reqs[i][next[i]].at <= m.now; next[i]++ {
				r.queue = append(r.queue, reqs[i][next[i]])
			}
		}
		for i, e := range m.engines {
			if m.now >= nextTell[i] {
				nextTell[i] += m.every
				m.tell(i)
			}
			if m.now < e.next {
				e.admit()
				continue
			}
			begun, ended := e.step(m.now)
			e.next = m.now + m.itl*(1+float64(len(e.in))/80)
			for _, c := range begun {
				if !m.routers[0].oracle {
					if m.early {
						c.from.ledgers[i].promptIs(&c.q.claim, c.q.prompt, m.clock())
					}
					c.from.ledgers[i].begin(&c.q.claim, m.clock())
				}
			}
			for _, c := range ended {
				left--
				m.end(c)
			}
		}
		m.deliver()
		for _, r := range m.routers {
			if tick++; len(m.ends) != ends || tick%10 < len(m.routers) { // an end, or 50 ms
				m.serve(r)
			}
		}
		ends = len(m.ends)
		m.send()
		if m.trace != nil {
			m.trace(m)
		}
		m.now += 0.005
	}
	if left > 0 {
		t.Errorf("%d requests have not ended after %.0f s", left, m.now-begin)
	}
	after := 0
	for _, e := range m.engines {
		after += e.preempted
	}
	return m.now - begin, after - before
}

func (m *model) end(c *modelClaim) {
	r := c.from
	m.ends = append(m.ends, m.now)
	r.open[c.engine] = slices.DeleteFunc(r.open[c.engine], func(o *modelClaim) bool { return o == c })
	tokens := -1
	if m.usage {
		tokens = c.got
	}
	if !r.oracle {
		r.ledgers[c.engine].end(&c.q.claim, tokens, true, m.clock())
	}
}

// tell makes a report of engine i, for every router.
func (m *model) tell(i int) {
	e := m.engines[i]
	for _, r := range m.routers {
		rep := unknown()
		rep.At, rep.KVCapacity, rep.KVUsed, rep.BlockSize = m.clock(), m.capacity(), e.used(), float64(e.block)
		rep.MaxContext = 131072
		rep.Running = float64(i) // who it is from
		r.told = append(r.told, rep)
	}
}

func (m *model) deliver() {
	for _, r := range m.routers {
		for len(r.told) > 0 && m.clock().Sub(r.told[0].At).Seconds() >= m.old-1e-6 {
			if !r.oracle {
				r.ledgers[int(r.told[0].Running)].report(&r.told[0], m.clock())
			}
			r.told = r.told[1:]
		}
	}
}

// serve grants what has space, first come, first served.
func (m *model) serve(r *modelRouter) {
	for len(r.queue) > 0 {
		q := r.queue[0]
		bytes := int(float64(q.prompt) * (4 + 0.4*(m.dice.Float64()-0.5)))
		n := need{r.habits, bytes, q.limit, 1}
		best, most := -1, math.Inf(-1)
		for i, l := range r.ledgers {
			var free float64
			if r.oracle {
				if free = m.oracleFree(r, i, q); free < 0 {
					continue
				}
			} else {
				if !l.known() || l.fits(n, m.clock()) != spaceNow {
					continue
				}
				free = l.capacity - l.ours() - l.others.held
			}
			if free > most {
				best, most = i, free
			}
		}
		if best < 0 {
			return
		}
		r.queue = r.queue[1:]
		c := &modelClaim{q: q, from: r, engine: best}
		r.open[best] = append(r.open[best], c)
		w := 0
		for i := range m.prefill {
			if m.prefill[i] < m.prefill[w] {
				w = i
			}
		}
		m.prefill[w] = max(m.prefill[w], m.now) + 0.03 + float64(q.prompt)*m.perToken
		c.ready = m.prefill[w] + 0.01
		if !r.oracle {
			r.ledgers[best].grant(&q.claim, n, m.clock())
		}
		if m.early {
			if !r.oracle {
				r.ledgers[best].tell(&q.claim, m.clock())
			}
			m.engines[best].waiting = append(m.engines[best].waiting, c)
			m.engines[best].admit()
			continue
		}
		m.sent = append(m.sent, c)
	}
}

// send tells the engines of those whose prompt is computed.
func (m *model) send() {
	m.sent = slices.DeleteFunc(m.sent, func(c *modelClaim) bool {
		if c.ready-0.01 > m.now {
			return false
		}
		if !c.from.oracle {
			c.from.ledgers[c.engine].promptIs(&c.q.claim, c.q.prompt, m.clock())
			c.from.ledgers[c.engine].tell(&c.q.claim, m.clock())
		}
		m.engines[c.engine].waiting = append(m.engines[c.engine].waiting, c)
		return true
	})
}

// oracleFree returns what is free at the fullest moment to come, with q.
func (m *model) oracleFree(r *modelRouter, i int, q *modelRequest) float64 {
	type rest struct{ has, left int }
	e := m.engines[i]
	all := []rest{{q.prompt, q.answer}}
	for _, c := range r.open[i] {
		all = append(all, rest{c.q.prompt + c.got, c.q.answer - c.got})
	}
	slices.SortFunc(all, func(a, b rest) int { return a.left - b.left })
	least := math.Inf(1)
	for j := range all {
		blocks := 0
		for _, o := range all[j:] {
			blocks += e.need(o.has + all[j].left)
		}
		least = min(least, float64(e.blocks-blocks))
	}
	return least * float64(e.block)
}
