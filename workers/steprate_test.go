package workers

import "testing"

// generating returns a report of an engine at which so many requests run and
// that has generated so many tokens.
func generating(running, generated float64) *Report {
	r := unknown()
	r.Running, r.GeneratedTokens = running, generated
	return &r
}

// A rate is known from reports alone: of streams whose clients want no usage
// nobody says how many tokens they had.
func TestStepRateIsLearntFromReports(t *testing.T) {
	r := newStepRate()
	r.began = 1
	r.report(1, generating(0, 1000))
	r.report(2, generating(10, 1100)) // how many of this second how many ran for is not known
	if r.settled(2) || !r.blind(2) || r.value != firstRate {
		t.Errorf("the rate is %.0f at once", r.value)
	}
	r.report(3, generating(10, 1600))
	if !r.settled(3) || r.blind(3) || !r.blind(2.5) || !near(r.value, 50, 0.1) {
		t.Errorf("the rate is %.0f, want 50", r.value)
	}
	r.report(4, generating(12, 0)) // restarted
	r.report(5, unknownLoad())
	r.report(6, generating(10, 500))
	r.report(7, generating(10, 1000))
	if !near(r.value, 50, 0.1) {
		t.Errorf("the rate is %.0f, want 50", r.value)
	}
}

func unknownLoad() *Report {
	r := unknown()
	return &r
}

// An engine that does not tell how fast it is is taken for a usual one.
func TestStepRateIsGuessedInTheEnd(t *testing.T) {
	r := newStepRate()
	if r.settled(100) || r.blind(100) {
		t.Error("it is known, or missed, before anything was generated")
	}
	r.began = 100
	if r.settled(105) || !r.settled(110) || r.value != firstRate || r.blind(110) {
		t.Errorf("the rate is %.0f, blind %t", r.value, r.blind(110))
	}
}

// What answers have grown is counted anew when the rate becomes known, and what
// could not be explained until then is nobody's.
func TestLedgerRestatesGrowth(t *testing.T) {
	l, h := ledgerOf(100e3, 0)
	claims := make([]claim, 10)
	for i := range claims {
		l.grant(&claims[i], need{h, 4000, 2000, 1}, modelTime(1))
		l.begin(&claims[i], modelTime(1))
	}
	say(l, 3, 3, 100e3, 10*1600) // 300 tokens a second
	if d := l.status(modelTime(3)).Drift; d != 0 {
		t.Errorf("a drift of %.3f while it is not known how fast answers grow", d)
	}
	l.end(&claims[9], 900, true, modelTime(4))
	if got := used(l, 4); !near(got, 9*1900, 10) {
		t.Errorf("%.0f tokens in use, want %d", got, 9*1900)
	}
	say(l, 3.5, 4.5, 100e3, 10*1750) // of before it was known
	say(l, 5, 5, 100e3, 9*2200)
	if d := l.status(modelTime(5)).Drift; !near(d, 0, 0.001) {
		t.Errorf("a drift of %.3f", d)
	}
	if l.others.seen {
		t.Error("others were seen where there are none")
	}
}
