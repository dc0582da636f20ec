package bench

import (
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	var s Spread
	if got := s.Quantile(0.5); got != 0 || s.Count() != 0 {
		t.Errorf("the quantile of nothing = %v", got)
	}
	for i := range 1000 {
		s.Add(time.Duration(i+1) * time.Millisecond)
	}
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{
		{0, time.Millisecond}, {0.5, 500 * time.Millisecond}, {0.99, 990 * time.Millisecond}, {1, time.Second},
	} {
		got := s.Quantile(tt.q)
		if off := float64(got-tt.want) / float64(tt.want); off < -0.01 || off > 0.01 {
			t.Errorf("Quantile(%v) = %v, want %v to within 1 %%", tt.q, got, tt.want)
		}
	}
	if got := s.Mean(); got != 500500*time.Microsecond {
		t.Errorf("Mean = %v, want that of 1 to 1000 ms", got)
	}
	s = Spread{}
	for _, d := range []time.Duration{-time.Second, 0, time.Nanosecond, 1000 * time.Hour} {
		s.Add(d) // what is out of range counts at the end that it is beyond
	}
	if lo, hi := s.Quantile(0.75), s.Quantile(1); lo > time.Microsecond || hi < time.Hour || s.Count() != 4 {
		t.Errorf("quantiles of what is out of range = %v, %v", lo, hi)
	}
}
