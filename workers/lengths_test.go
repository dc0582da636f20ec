package workers

import (
	"math/rand/v2"
	"testing"
)

func TestBinsFollowOneAnother(t *testing.T) {
	for b := range lengthBins {
		begin, end := binBegin(b), binBegin(b+1)
		if binOf(begin) != b || b < lengthBins-1 && binOf(end) != b+1 || binOf(end-1) != b {
			t.Errorf("bin %d from %v to %v has %d to %d", b, begin, end, binOf(begin), binOf(end-1))
		}
	}
	if binOf(-1) != 0 || binOf(1e9) != lengthBins-1 {
		t.Errorf("lengths out of range are in bins %d and %d", binOf(-1), binOf(1e9))
	}
}

// answers lets l see n answers that are as often shorter as longer than middle.
func answers(l *lengths, n int, middle float64, dice *rand.Rand) {
	for range n {
		b := binOf(2 * middle * dice.Float64())
		l.pass(-1, b)
		l.end(b)
	}
	l.refresh()
}

func TestLengthsAreLearnt(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 1))
	l := &lengths{dirty: true}
	l.refresh()
	if l.beyond(100e3) != 1 || l.beyond(0) != 1 {
		t.Errorf("cold, a share of %v is longer than 100000 tokens, want all", l.beyond(100e3))
	}
	answers(l, 500, 300, dice)
	for _, tt := range []struct{ tokens, want, by float64 }{{0, 1, 0.02}, {150, 0.75, 0.08}, {300, 0.5, 0.08}, {600, 0.03, 0.04}, {5000, 0, 0.01}, {1e9, 0, 0.001}} {
		if got := l.beyond(tt.tokens); !near(got, tt.want, tt.by) {
			t.Errorf("a share of %.3f is longer than %v tokens, want %v", got, tt.tokens, tt.want)
		}
	}
	answers(l, 500, 3000, dice)
	if got := l.beyond(1000); got < 0.6 {
		t.Errorf("a share of %.3f is longer than 1000 tokens after all have become so", got)
	}
}

// TestUnfinishedAnswersCount: of a burst of which a few short answers have
// ended, the others are known to be longer.
func TestUnfinishedAnswersCount(t *testing.T) {
	l := &lengths{dirty: true}
	for range 40 {
		l.pass(-1, binOf(50))
	}
	for range 10 {
		l.end(binOf(50))
	}
	for range 30 {
		l.pass(binOf(50), binOf(200))
	}
	l.refresh()
	if got := l.beyond(200); got < 0.7 {
		t.Errorf("a share of %.2f is longer than 200 tokens, where 30 of 40 are", got)
	}
}

func TestHabitsLearnTokens(t *testing.T) {
	h := newHabits()
	if got := h.promptTokens(3000); !near(got, 1000, 1) {
		t.Errorf("cold, 3000 bytes are %v tokens", got)
	}
	for range 300 {
		h.promptIs(5000, 1000)
		h.promptIs(0, 7)
	}
	if got := h.promptTokens(5000); !near(got, 1000, 5) {
		t.Errorf("5000 bytes are %v tokens, want 1000", got)
	}
}
