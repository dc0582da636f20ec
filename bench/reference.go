package bench

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"pdrouter/policy"
	"pdrouter/workers"
)

// References returns the names of policies as others have them, rebuilt from
// their descriptions to be compared with ours. They know how fast the model's
// engines are and how much these keep; ours have to learn it.
func References() []string {
	return []string{"ref_round_robin", "ref_sglang", "ref_llm_d", "ref_ttft", "ref_ttft_own2"}
}

// Reference returns a new policy of that name; nil: there is none. Ties are
// broken at random.
func Reference(name string, e Engine, seed uint64) workers.Chooser {
	r := &reference{engine: e, dice: rand.New(rand.NewPCG(seed, 1)), seen: map[*workers.Worker]*mirror{}}
	switch name {
	case "ref_round_robin":
		r.pick = r.roundRobin
	case "ref_sglang":
		r.pick = r.sglang
	case "ref_llm_d":
		r.pick = r.llmD
	case "ref_ttft":
		r.pick = func() int { return r.least(func(m *mirror) float64 { return (m.backlog + m.work).Seconds() }) }
	case "ref_ttft_own2":
		r.pick = func() int { return r.least(func(m *mirror) float64 { return (m.backlog + 2*m.work).Seconds() }) }
	default:
		return nil
	}
	return r
}

// reference is what they have in common: a copy of each worker's cache, made
// of what was sent there, and when the worker will have done all of it.
type reference struct {
	engine Engine
	dice   *rand.Rand
	pick   func() int
	turn   int

	seen  map[*workers.Worker]*mirror
	now   []*mirror // the candidates of one choice
	loads []*workers.Load
}

// A mirror is a worker as a reference sees it.
type mirror struct {
	cache *cache
	free  time.Time

	share         float64       // of the prompt's blocks that it holds
	work, backlog time.Duration // of the prompt, and before it
}

// Choose implements workers.Chooser.
func (r *reference) Choose(need workers.Need, pools []workers.Pool) workers.Choice {
	block := cmp.Or(r.engine.Block, BlockTokens)
	r.loads, r.now = pools[0].Prefill, r.now[:0]
	ids := make([]int64, len(need.Prompt.Chain))
	for i, hash := range need.Prompt.Chain {
		ids[i] = int64(hash)
	}
	req := &Request{InputLength: need.Prompt.Bytes * block / policy.BlockBytes, HashIDs: ids, Block: block}
	for _, l := range r.loads {
		m := r.seen[l.Worker]
		if m == nil {
			m = &mirror{cache: newCache(r.engine.KVTokens / block)}
			r.seen[l.Worker] = m
		}
		if l.InFlight == 0 {
			m.free = need.At
		}
		blocks := m.cache.match(ids)
		m.share = float64(blocks) / float64(max(len(ids), 1))
		m.work, m.backlog = r.engine.takes(req, blocks), max(m.free.Sub(need.At), 0)
		r.now = append(r.now, m)
	}
	at := r.pick()
	m := r.now[at]
	m.free = need.At.Add(m.backlog + m.work)
	m.cache.use(ids)
	return workers.Choice{Prefill: at}
}

// least returns the place of the worker with the least cost.
func (r *reference) least(cost func(*mirror) float64) int {
	best, least, equals := 0, math.Inf(1), 0
	for i, m := range r.now {
		switch c := cost(m); {
		case c < least-1e-12:
			best, least, equals = i, c, 1
		case c <= least+1e-12:
			if equals++; r.dice.IntN(equals) == 0 {
				best = i
			}
		}
	}
	return best
}

func (r *reference) roundRobin() int {
	r.turn++
	return r.turn % len(r.now)
}

// sglang is sglang-router's cache_aware: the worker with the longest match if
// that is more than half, else the one with the smallest tree; the one with the
// fewest requests if the load is far from balanced.
func (r *reference) sglang() int {
	byLoad := func(a, b *workers.Load) int { return a.InFlight - b.InFlight }
	most, fewest := slices.MaxFunc(r.loads, byLoad).InFlight, slices.MinFunc(r.loads, byLoad).InFlight
	if most-fewest > 64 && float64(most) > 1.5*float64(fewest) {
		return r.least(func(m *mirror) float64 { return float64(r.loads[slices.Index(r.now, m)].InFlight) })
	}
	best := r.least(func(m *mirror) float64 { return -m.share })
	if r.now[best].share > 0.5 {
		return best
	}
	return r.least(func(m *mirror) float64 { return float64(len(m.cache.blocks)) })
}

// llmD is the weighted sum of llm-d's scorers: 3 for the prefix, 2 for the
// load, which is the backlog beside that of the busiest.
func (r *reference) llmD() int {
	most := time.Duration(1)
	for _, m := range r.now {
		most = max(most, m.backlog)
	}
	return r.least(func(m *mirror) float64 { return -3*m.share - 2*(1-float64(m.backlog)/float64(most)) })
}
