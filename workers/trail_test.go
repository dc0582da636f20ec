package workers

import "testing"

func TestTrailRemembers(t *testing.T) {
	var r trail
	r.mark(0, span{0, 0}, span{0, 0})
	r.mark(1, span{0, 0}, span{100, 200})     // a step
	r.mark(11, span{1100, 1200}, span{50, 0}) // grown evenly, then gone
	for _, tt := range []struct {
		name        string
		then        float64
		least, most float64
	}{
		{"before the step", 0.5, 0, 0},
		{"at the step", 1, 0, 200},
		{"half of the way", 6, 580, 740},
		{"at the end", 11, 50, 1200},
		{"what is to come is as it is now", 20, 50, 1200},
		{"what is long past is as it was first", -50, 0, 0},
	} {
		got := r.around(tt.then)
		if !near(got.least, tt.least, 30) || !near(got.most, tt.most, 30) {
			t.Errorf("%s: %+v, want %v to %v", tt.name, got, tt.least, tt.most)
		}
	}
	r.mark(1000, span{7, 7}, span{7, 7})
	if got := r.around(1); got != (span{7, 7}) {
		t.Errorf("after a long time: %+v, want what is there now", got)
	}
}
