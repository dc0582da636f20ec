package bench

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"pdrouter/policy"
	"pdrouter/workers"
)

// A Policy makes a policy anew for each replay: policies learn.
type Policy struct {
	Name      string
	Reference bool // it is one of References, not ours
	Make      func(seed uint64) workers.Chooser
}

// AtOnce is the name of cache_aware without a hold.
const AtOnce = "cache_aware_at_once"

// PolicyNames returns the names of all that PolicyOf knows, ours first.
func PolicyNames() []string {
	return append(append([]string{AtOnce}, policy.Names()...), References()...)
}

// PolicyOf returns the policy of that name: one of ours, of References, or
// AtOnce.
func PolicyOf(name string, cfg policy.Config, e Engine) (Policy, error) {
	if Reference(name, e, 0) != nil {
		return Policy{name, true, func(seed uint64) workers.Chooser { return Reference(name, e, seed) }}, nil
	}
	cfg.BlockBytes = policy.BlockBytes // what stands for a block of the trace
	ours := name
	if name == AtOnce {
		ours, cfg.Hold = "cache_aware", 0
	}
	if _, ok := policy.New(ours, ours, cfg); !ok {
		return Policy{}, fmt.Errorf("policy: %q is unknown", name)
	}
	return Policy{name, false, func(seed uint64) workers.Chooser {
		cfg := cfg
		cfg.Seed = seed
		c, _ := policy.New(ours, ours, cfg)
		return c
	}}, nil
}

// Means replays reqs with p, once with each of so many seeds, and returns the
// means.
func (v Virtual) Means(reqs []Request, p Policy, seeds int) Row {
	return v.means(p, seeds, func(v Virtual, c workers.Chooser) Row {
		return RowOf(p.Name, v.Run(reqs, c), v.Workers)
	})
}

func (v Virtual) means(p Policy, seeds int, run func(Virtual, workers.Chooser) Row) Row {
	rows := make([]Row, seeds)
	for i := range rows {
		v.Seed = uint64(i)
		rows[i] = run(v, p.Make(v.Seed))
	}
	return Mean(rows)
}

// Recovery replays reqs with p while something happens to a worker at half
// time, or nothing, and returns the means of the five minutes that begin two
// minutes of the trace later.
func (v Virtual) Recovery(reqs []Request, p Policy, seeds int, kinds ...UpsetKind) Row {
	half := time.Duration(float64(reqs[len(reqs)-1].At()) / v.Speed / 2)
	from := half + time.Duration(float64(2*time.Minute)/v.Speed)
	late := func(e Ended) bool { return e.At < from || e.At > from+5*time.Minute }
	left := v.Workers
	for _, kind := range kinds {
		v.Upsets = append(v.Upsets, Upset{At: half, Kind: kind, Seat: 3})
		switch kind {
		case Die:
			left--
		case Add:
			left++
		case Flush:
		}
	}
	return v.means(p, seeds, func(v Virtual, c workers.Chooser) Row {
		return RowOf(p.Name, slices.DeleteFunc(v.Run(reqs, c), late), left)
	})
}

// InOrder runs jobs, as many at a time as there are processors, and calls each
// with what came of them, in their order.
func InOrder[T any](jobs []func() T, each func(i int, came T)) {
	done := make([]chan T, len(jobs))
	for i := range done {
		done[i] = make(chan T, 1)
	}
	var all, running errgroup.Group
	running.SetLimit(runtime.GOMAXPROCS(0))
	all.Go(func() error {
		for i := range jobs {
			running.Go(func() error {
				done[i] <- jobs[i]()
				return nil
			})
		}
		return running.Wait()
	})
	for i := range done {
		each(i, <-done[i])
	}
	_ = all.Wait() // jobs have no errors
}
