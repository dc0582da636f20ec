package policy

import (
	"pdrouter/workers"

	"github.com/cespare/xxhash/v2"
)

// loadFactor is how far above the average a worker's load may be for the sake
// of affinity; smg's --prefix-hash-load-factor.
const loadFactor = 1.25

// PrefixHash sends prompts that begin alike to the same workers, unless these
// carry more than loadFactor times the average load: then to the next one in
// that prompt's order (rendezvous hashing with bounded loads), so that a
// worker that comes or goes moves only its own share. A prompt without a key
// goes to the least loaded worker, among equals to the one leased least
// recently.
//
// The zero value is ready to use.
type PrefixHash struct{}

// Choose implements workers.Chooser.
func (PrefixHash) Choose(need workers.Need, pools []workers.Pool) workers.Choice {
	var c workers.Choice
	if len(pools) > 1 {
		c.Pool = emptiest(pools)
	}
	pool := &pools[c.Pool]
	c.Prefill = rendezvous(need.Key, pool.Prefill)
	c.Decode = rendezvous(need.Key, pool.Decode)
	return c
}

// emptiest returns the pool with the least load per decode worker.
func emptiest(pools []workers.Pool) int {
	best, least := 0, -1.0
	for i := range pools {
		if l := float64(total(pools[i].Decode)) / float64(len(pools[i].Decode)); least < 0 || l < least {
			best, least = i, l
		}
	}
	return best
}

// rendezvous returns the place of the worker for key. The bound leaves at
// least one worker: the least loaded is never above the average.
func rendezvous(key uint64, loads []*workers.Load) int {
	bound := loadFactor * float64(total(loads)+1) / float64(len(loads))
	best, bestScore := -1, uint64(0)
	for i, l := range loads {
		if key == 0 {
			if best < 0 || lighter(l, loads[best]) {
				best = i
			}
			continue
		}
		if float64(l.InFlight) >= bound {
			continue
		}
		if s := score(key, l.Worker); best < 0 || s > bestScore {
			best, bestScore = i, s
		}
	}
	return best
}

func lighter(a, b *workers.Load) bool {
	if a.InFlight != b.InFlight {
		return a.InFlight < b.InFlight
	}
	return a.Picked < b.Picked
}

func total(loads []*workers.Load) int {
	n := 0
	for _, l := range loads {
		n += l.InFlight
	}
	return n
}

// score is how well w suits key: a number that looks random, is the same in
// every process, and changes with either. The finaliser is splitmix64's.
func score(key uint64, w *workers.Worker) uint64 {
	x := key ^ xxhash.Sum64String(w.URL)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
