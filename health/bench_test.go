package health

import (
	"fmt"
	"sync/atomic"
	"testing"

	"pdrouter/workers"
)

// TestAllocations: gobreaker makes one closure for each outcome that it books.
// Nothing else is allocated.
func TestAllocations(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*fleet)
		most    float64
	}{
		"a pair that has never failed":            {func(*fleet) {}, 2},
		"a pair whose hand-off has failed before": {func(f *fleet) { f.try(0, 0, nil, untaken()) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(DefaultConfig(), 2, 2)
			c.prepare(f)
			permit := new(workers.Permit)
			if got := testing.AllocsPerRun(1000, func() {
				f.Permit(permit, f.prefill[0], f.decode[0])
				f.Ended(permit, workers.Prefill, nil)
				f.Ended(permit, workers.Decode, nil)
			}); got > c.most {
				t.Errorf("a request allocates %v times, want %v", got, c.most)
			}
		})
	}
}

// BenchmarkJudge is one request's Permit and both of its Endeds.
func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{8, 128} {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			f := newFleet(DefaultConfig(), n/2, n/2)
			b.ReportAllocs()
			var permit workers.Permit
			for i := 0; b.Loop(); i++ {
				f.once(&permit, i)
			}
		})
		b.Run(fmt.Sprintf("workers=%d/parallel", n), func(b *testing.B) {
			f := newFleet(DefaultConfig(), n/2, n/2)
			b.ReportAllocs()
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				var permit workers.Permit
				for i := int(next.Add(1)); pb.Next(); i++ {
					f.once(&permit, i)
				}
			})
		})
	}
}

func (f *fleet) once(permit *workers.Permit, i int) {
	if !f.Permit(permit, f.prefill[i%len(f.prefill)], f.decode[(i/7)%len(f.decode)]) {
		panic("refused")
	}
	f.Ended(permit, workers.Prefill, nil)
	f.Ended(permit, workers.Decode, nil)
}
