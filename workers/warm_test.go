package workers

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// TestWarmup follows the weight of a worker that has started anew.
func TestWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fleet(t, 1, first{})
		w := worker(t, r, "decode-0")
		r.Recheck(w)
		time.Sleep(time.Hour) // it takes long to start; warming begins when it is there
		r.learn(w.learnt, w, w.facts, nil)
		for _, want := range []float64{0.25, 0.50, 0.75, 1, 1} {
			var pair Pair
			if err := r.Lease(t.Context(), Need{}, &pair); err != nil {
				t.Fatal(err)
			}
			drop(&pair)
			if s, _ := r.Get("decode-0"); math.Abs(s.Weight-want) > 1e-9 || w.load.Weight != s.Weight {
				t.Errorf("weight %v after the start = %v, chosen by %v, want %v", time.Since(w.warmFrom), s.Weight, w.load.Weight, want)
			}
			time.Sleep(20 * time.Second)
		}
		if s, _ := r.Get("prefill-0"); s.Weight != 1 {
			t.Errorf("weight of a worker that was there from the start = %v, want 1", s.Weight)
		}
	})
}
