package workers

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTrend: how long until full is said while an amount rises, and neither of
// one that has come to rest below it nor of one that goes up and down.
func TestTrend(t *testing.T) {
	const full = 60000.0
	dice := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		name   string
		amount func(at float64) float64
		at     float64
		want   float64 // seconds
	}{
		{"nothing", func(float64) float64 { return 0 }, 60, math.Inf(1)},
		{"rising steadily", func(at float64) float64 { return 500 * at }, 100, 20},
		{"risen, and at rest for 25 s", func(at float64) float64 { return min(1500*at, 57000) }, 63, math.Inf(1)},
		{"falling", func(at float64) float64 { return 57000 - 300*at }, 60, math.Inf(1)},
		{"up and down by requests", func(float64) float64 { return 50000 + 2000*dice.Float64() }, 120, math.Inf(1)},
		{"full", func(at float64) float64 { return 600 * at }, 100, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tr trend
			for at := 0.0; at <= tt.at; at += 0.25 {
				tr.mark(at, tt.amount(at))
			}
			got := tr.until(full)
			switch {
			case math.IsInf(tt.want, 1) && got > 300:
			case math.Abs(got-tt.want) > 2 || math.IsNaN(got):
				t.Errorf("full in %.1f s, want %.1f", got, tt.want)
			}
		})
	}
}
