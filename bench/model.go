package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"pdrouter/workers"
)

// An Engine is what all prefill workers of a model are like.
type Engine struct {
	KVTokens  int           // that its prefix cache holds
	PerPrompt time.Duration // what each prompt takes
	PerSecond float64       // tokens that it computes in a second

	// Block is how many tokens an id of the trace stands for. Virtual finds
	// out; References are told here. 0: BlockTokens.
	Block int

	// Noise is how far from that each prompt may be, as a share of it: times
	// are evenly spread around what they should be. With none, seeds differ
	// only in the names of workers.
	Noise float64
}

// DefaultEngine returns the engine of the published figures.
func DefaultEngine() Engine {
	return Engine{KVTokens: 3_000_000, PerPrompt: 30 * time.Millisecond, PerSecond: 10_000, Noise: 0.001}
}

// takes returns how long a prompt takes of which so many blocks are cached.
func (e Engine) takes(r *Request, blocks int) time.Duration {
	left := max(r.InputLength-blocks*r.block(), 0)
	return e.PerPrompt + time.Duration(float64(left)/e.PerSecond*float64(time.Second))
}

// A modelled worker computes one prompt after the other, in the order in which
// they come.
type modelled struct {
	engine Engine
	load   *workers.Load
	cache  *cache
	queue  []*flight // the first is being computed
	ends   time.Duration
	dead   bool
	dice   *rand.Rand
}

// A flight is a request on its way.
type flight struct {
	at      int // its place in the trace
	req     *Request
	came    time.Duration
	waiter  workers.Waiter
	choice  workers.Choice
	found   int // blocks that were cached when it was begun
	takes   time.Duration
	matches workers.Matches
}

func newModelled(e Engine, block, seat int, seed uint64) *modelled {
	w := &workers.Worker{Spec: workers.Spec{URL: fmt.Sprintf("http://prefill-%d", seat), Role: workers.Prefill}, ID: fmt.Sprintf("prefill-%d", seat)}
	return &modelled{
		engine: e, cache: newCache(e.KVTokens / block), ends: math.MaxInt64,
		dice: rand.New(rand.NewPCG(uint64(seat), seed)),
		load: &workers.Load{Worker: w, Weight: 1, Seat: seat},
	}
}

// take queues a request.
func (m *modelled) take(now time.Duration, f *flight) {
	m.queue = append(m.queue, f)
	if len(m.queue) == 1 {
		m.begin(now)
	}
}

// begin computes the first of the queue.
func (m *modelled) begin(now time.Duration) {
	f := m.queue[0]
	f.found = m.cache.match(f.req.HashIDs)
	m.cache.use(f.req.HashIDs)
	f.takes = m.engine.takes(f.req, f.found)
	if noise := m.engine.Noise; noise > 0 {
		f.takes += time.Duration(float64(f.takes) * noise * (2*m.dice.Float64() - 1))
	}
	m.ends = now + f.takes
}

// end ends the first of the queue, and begins the next.
func (m *modelled) end(now time.Duration) *flight {
	f := m.queue[0]
	m.queue = m.queue[1:]
	m.ends = math.MaxInt64
	if len(m.queue) > 0 {
		m.begin(now)
	}
	return f
}

// report is what the engine says of itself.
func (m *modelled) report(at time.Time) workers.Report {
	nan := math.NaN()
	r := workers.Report{
		At: at, KVCapacity: float64(m.engine.KVTokens), KVUsed: nan, KVEvictable: nan, BlockSize: nan,
		TransferQueue: nan, CacheHitTokens: nan, CacheQueryTokens: nan,
		Running: float64(min(len(m.queue), 1)), Waiting: float64(max(len(m.queue)-1, 0)),
	}
	return r
}
