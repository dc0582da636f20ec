package router

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"
)

// A second is what a sampler did in one: how many lines it let pass, and what it
// said of the others.
type saying struct {
	at    time.Duration
	total int
	by    string
}

// TestSampling: what is written and what is counted are all there is.
func TestSampling(t *testing.T) {
	ok := kind{level: zapcore.InfoLevel, message: "request", status: 200}
	full := kind{level: zapcore.WarnLevel, message: "request failed", status: 429, code: "admission_queue_full"}
	died := kind{level: zapcore.WarnLevel, message: "request failed", status: 502, code: "decode_upstream_error"}
	tests := []struct {
		name string
		do   func(take func(n int, k kind) (written int))
		want []saying
	}{
		{"as many as may be", func(take func(int, kind) int) {
			for range 3 {
				wantWritten(t, take(mostWell, ok), mostWell)
				time.Sleep(time.Second)
			}
		}, nil},
		{"too many", func(take func(int, kind) int) {
			wantWritten(t, take(1000, ok), mostWell)
			time.Sleep(time.Second)
			wantWritten(t, take(300, ok), mostWell)
		}, []saying{{time.Second, 800, "200=800"}, {2 * time.Second, 100, "200=100"}}},
		{"failures among too many", func(take func(int, kind) int) {
			take(1000, ok)
			wantWritten(t, take(7, died), 7)
		}, []saying{{time.Second, 800, "200=800"}}},
		{"a flood of failures, and one of another kind", func(take func(int, kind) int) {
			wantWritten(t, take(5000, full), mostIll)
			wantWritten(t, take(3, died), 1)
			wantWritten(t, take(1, ok), 1)
			time.Sleep(time.Second)
			wantWritten(t, take(1, died), 1)
		}, []saying{{time.Second, 4902, "429 admission_queue_full=4900 502 decode_upstream_error=2"}}},
		{"kinds without end", func(take func(int, kind) int) {
			for i := range 1000 {
				take(1, kind{level: zapcore.WarnLevel, status: 400 + i, code: "x"})
			}
		}, []saying{{time.Second, 900, "others=900"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var said []saying
				s := sampler{say: func(total int, by []leftOut) {
					words := []string{}
					for _, b := range by {
						words = append(words, fmt.Sprintf("%v=%d", b.kind, b.n))
					}
					said = append(said, saying{time.Since(start), total, strings.Join(words, " ")})
				}}
				tt.do(func(n int, k kind) (written int) {
					synctest.Wait() // a timer that is due comes first
					for range n {
						if s.take(time.Now(), k) {
							written++
						}
					}
					return written
				})
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if fmt.Sprint(said) != fmt.Sprint(tt.want) {
					t.Errorf("it said %v, want %v", said, tt.want)
				}
			})
		})
	}
}

func wantWritten(t *testing.T, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%d lines were written, want %d", got, want)
	}
}

// TestWhatIsLeftOutIsSaidAtTheEnd: a router that stops within the second says what
// it has not written.
func TestWhatIsLeftOutIsSaidAtTheEnd(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	for range 2 * mostWell {
		f.handler.access.sampler.take(time.Now(), kind{status: 200})
	}
	f.handler.Wait()
	for _, e := range f.logs.All() {
		if e.Message == "requests without a line of their own" && e.Level == zapcore.InfoLevel {
			if n := e.ContextMap()["by_status"].(map[string]any)["200"]; n == e.ContextMap()["left_out"] && n.(int64) > 0 {
				return
			}
		}
	}
	t.Errorf("the log says %v", f.logs.All())
}

func BenchmarkAccessLineLeftOut(b *testing.B) {
	s := sampler{say: func(int, []leftOut) {}}
	b.ReportAllocs()
	for b.Loop() {
		s.take(time.Now(), kind{message: "request", status: 200})
	}
	s.flush()
}
