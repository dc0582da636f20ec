package router

import (
	"testing"
	"time"

	"pdrouter/metrics"
	"pdrouter/record"
)

// BenchmarkNote is what it costs to see one read of a stream, of which its record
// is a part: 0.3 us are allowed.
func BenchmarkNote(b *testing.B) {
	open := func() *stream {
		c := &call{rec: record.NewBook(1).Begin(time.Now(), "x")}
		a := &attempt{call: c, work: metrics.Discard().Work("m", "chat", "sglang", true)}
		return &stream{attempt: a, begun: true}
	}
	b.Run("record-only", func(b *testing.B) {
		for s := open(); b.Loop(); {
			s.call.rec.Token(time.Now())
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		s, base := open(), time.Now()
		for b.Loop() {
			base = base.Add(20 * time.Millisecond)
			s.note(base.Add(time.Since(base)/1e6), false) // a token's time apart, at the price of a clock
		}
	})
	b.Run("whole-parallel", func(b *testing.B) {
		work := open().work
		b.RunParallel(func(pb *testing.PB) {
			s, base := open(), time.Now()
			for s.work = work; pb.Next(); {
				base = base.Add(20 * time.Millisecond)
				s.note(base.Add(time.Since(base)/1e6), false)
			}
		})
	})
}
