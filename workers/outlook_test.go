package workers

import "testing"

func TestMomentsFollowOneAnother(t *testing.T) {
	for k := range outlookSteps {
		if stepBegin(k) >= stepBegin(k+1) {
			t.Errorf("moment %d begins after %v steps, the next after %v", k, stepBegin(k), stepBegin(k+1))
		}
	}
}

// certain are lengths of which nothing is known: each answer comes to its limit.
func certain() *lengths {
	l := &lengths{dirty: true}
	l.refresh()
	return l
}

func TestOutlookPeaks(t *testing.T) {
	for _, tt := range []struct {
		name    string
		courses []course
		want    float64
	}{
		{"nothing", nil, 0},
		{"one", []course{{prompt: 1000, answers: 1, limit: 500}}, 1500},
		{"one that has grown", []course{{prompt: 1000, answers: 1, grown: 100, limit: 500}}, 1500},
		{"one that is longer than it may be", []course{{prompt: 1000, answers: 1, grown: 600, limit: 500}}, 1600},
		{"a batch of two", []course{{prompt: 2000, answers: 2, limit: 500}}, 3000},
		{"two at the same time", []course{{prompt: 1000, answers: 1, limit: 500}, {prompt: 1000, answers: 1, limit: 500}}, 3000},
		{"one that has ended before the other grows", []course{{prompt: 1000, answers: 1, limit: 16}, {prompt: 1000, answers: 1, limit: 900}}, 2032},
		{"one that has ended when the other begins to grow", []course{{prompt: 1000, answers: 1, limit: 400}, {prompt: 1000, answers: 1, limit: 400, wait: 600}}, 2400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o outlook
			for i := range tt.courses {
				tt.courses[i].foresee(certain())
				o.add(&tt.courses[i], 1)
			}
			if got := o.peak(3); !near(got, tt.want, 1) {
				t.Errorf("a peak of %v, want %v", got, tt.want)
			}
			for i := range tt.courses {
				o.add(&tt.courses[i], -1)
			}
			if got := o.peak(3); !near(got, 0, 1e-6) {
				t.Errorf("a peak of %v is left", got)
			}
		})
	}
}

// TestManyNeedLessThanEach: the more claims, the less has to be spared for each.
func TestManyNeedLessThanEach(t *testing.T) {
	_, h := ledgerOf(1e6, 0)
	for range 100 { // half of all answers are ten times as long
		h.lengths.pass(-1, binOf(1000))
		h.lengths.end(binOf(1000))
	}
	h.lengths.refresh()
	perClaim := func(n int) float64 {
		var o outlook
		for range n {
			c := course{prompt: 100, answers: 1, limit: 5000}
			c.foresee(&h.lengths)
			o.add(&c, 1)
		}
		return o.peak(3) / float64(n)
	}
	if few, many := perClaim(2), perClaim(200); few < 1.3*many {
		t.Errorf("each of 2 needs %.0f tokens, each of 200 %.0f", few, many)
	}
}
