package router

import (
	"fmt"
	"testing"
	"time"

	"pdrouter/record"
	"pdrouter/workers"
)

// A choosing is all that explaining a choice costs a request: the policy lists
// the workers, and they are copied into the record.
type choosing struct {
	x    workers.Explanation
	seen []record.Candidate
	pair workers.Pair
	all  []*workers.Worker
	book *record.Book
}

func newChoosing(n int) *choosing {
	c := &choosing{book: record.NewBook(2)}
	for i := range n {
		c.all = append(c.all, &workers.Worker{ID: fmt.Sprint("worker-", i), Spec: workers.Spec{Role: workers.Role(i % 2)}})
	}
	c.pair.Prefill.Worker, c.pair.Decode.Worker = c.all[n-2], c.all[n-1]
	return c
}

func (c *choosing) explain() {
	c.x.Reset()
	for i, w := range c.all {
		o := workers.Candidate{Worker: w, InFlight: i, Blocks: i, Wait: time.Duration(i), Work: time.Duration(i), Cost: float64(i * 37 % len(c.all))}
		c.x.Add(&o)
	}
	for _, w := range [...]*workers.Worker{c.pair.Prefill.Worker, c.pair.Decode.Worker} {
		o := workers.Candidate{Worker: w}
		c.x.Keep(&o)
	}
	c.seen = candidates(c.seen[:0], &c.x, &c.pair)
}

func TestExplainingARequestAllocatesNothing(t *testing.T) {
	for _, n := range []int{8, 128} {
		c := newChoosing(n)
		one := func() {
			c.explain()
			r := c.book.Begin(time.Time{}, "x")
			r.Leased(record.Attempt{Choice: record.Choice{Candidates: c.seen}})
			c.book.End(r, &record.End{Keep: true})
		}
		for range 8 {
			one()
		}
		least := 1.0
		for range 50 { // a sync.Pool forgets now and then, under the race detector a quarter
			least = min(least, testing.AllocsPerRun(2, one))
		}
		if least != 0 {
			t.Errorf("%v allocations with %d workers", least, n)
		}
		chosen := 0
		for _, s := range c.seen {
			if s.Chosen {
				chosen++
			}
		}
		if chosen != 2 || len(c.seen) > workers.MostCandidates {
			t.Errorf("%d of %d candidates are marked as chosen", chosen, len(c.seen))
		}
	}
}

func BenchmarkExplaining(b *testing.B) {
	for _, n := range []int{8, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newChoosing(n)
			b.ReportAllocs()
			r := c.book.Begin(time.Time{}, "x")
			for i := 0; b.Loop(); i++ {
				c.explain()
				r.Leased(record.Attempt{Choice: record.Choice{Candidates: c.seen}})
				if i%4 == 0 { // a new request, or its attempts would grow
					c.book.End(r, &record.End{Keep: true})
					r = c.book.Begin(time.Time{}, "x")
				}
			}
		})
	}
}
