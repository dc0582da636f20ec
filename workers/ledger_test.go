package workers

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// ledgerOf returns a ledger whose engine holds so many tokens and has just said
// that so many are in use, and the habits of requests of 4 bytes a token whose
// answers have all had 100 tokens.
func ledgerOf(capacity, used float64) (*ledger, *habits) {
	h := newHabits()
	for range 100 {
		h.promptIs(4000, 1000)
		h.lengths.pass(-1, binOf(100))
		h.lengths.end(binOf(100))
	}
	h.lengths.refresh()
	l := &ledger{}
	say(l, 0, 0, capacity, used)
	return l, h
}

// say lets an engine's report of one time come at another.
func say(l *ledger, at, now, capacity, used float64) {
	r := unknown()
	r.At, r.KVCapacity, r.KVUsed = modelTime(at), capacity, used
	l.report(&r, modelTime(now))
}

// used returns what the ledger says is in use at a time.
func used(l *ledger, at float64) float64 { return l.status(modelTime(at)).Used }

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }

func TestLedgerFollowsALease(t *testing.T) {
	l, h := ledgerOf(100e3, 0)
	c := &claim{}
	check := func(at, want float64, when string) {
		t.Helper()
		if got := used(l, at); !near(got, want, 1) {
			t.Errorf("%s: %.0f tokens in use, want %.0f", when, got, want)
		}
	}
	l.grant(c, need{h, 4000, 500, 1}, modelTime(1))
	check(1, 0, "granted")
	if r := l.status(modelTime(1)).Reserved; !near(r, 1110, 60) {
		t.Errorf("%.0f tokens reserved, want the prompt's 1000 and some 100", r)
	}
	l.tell(c, modelTime(2))
	check(2, l.whole(c.prompt, 1), "told")
	l.promptIs(c, 1200, modelTime(2))
	check(2, 1200, "prompt known")
	l.begin(c, modelTime(3))
	check(4, 1200+firstRate, "a second after its first token")
	say(l, 4.5, 5, 100e3, 1200+1.5*firstRate)
	check(5, 1200+2*firstRate, "a report that agrees")
	l.end(c, 120, true, modelTime(6))
	check(6, 0, "ended, before any report")
	say(l, 5.5, 6.5, 100e3, 1315)
	check(6.5, 0, "ended, and a report of before")
}

// TestLedgerCountsABatch: a batch of four prompts grows by four tokens at a step.
func TestLedgerCountsABatch(t *testing.T) {
	l, h := ledgerOf(100e3, 0)
	one, batch := &claim{}, &claim{}
	l.grant(one, need{h, 4000, 500, 1}, modelTime(1))
	l.grant(batch, need{h, 4000, 500, 4}, modelTime(1))
	if a, b := one.course.expected(), batch.course.expected(); b-1000 < 3.5*(a-1000) {
		t.Errorf("a batch of four is expected to take %.0f tokens, one of its prompts %.0f", b, a)
	}
	for _, c := range []*claim{one, batch} {
		l.promptIs(c, 1000, modelTime(2))
		l.begin(c, modelTime(3))
	}
	if got := used(l, 4); !near(got, 2000+5*firstRate, 1) {
		t.Errorf("%.0f tokens in use a second after their first, want %d", got, 2000+5*firstRate)
	}
	say(l, 4.5, 5, 100e3, 2000+5*1.5*firstRate)
	if got := l.status(modelTime(5)).Drift; !near(got, 0, 0.001) {
		t.Errorf("a drift of %.3f of a report that agrees", got)
	}
	l.end(batch, 4*60, true, modelTime(5))
	if got := used(l, 5); !near(got, 1000+2*firstRate, 1) {
		t.Errorf("%.0f tokens in use when the batch has ended", got)
	}
	l.end(one, 60, true, modelTime(5))
	if got := l.held(); got.most != 0 {
		t.Errorf("%v held at rest", got)
	}
}

func TestLedgerSeesOthers(t *testing.T) {
	l, h := ledgerOf(100e3, 0)
	c := &claim{}
	l.grant(c, need{h, 4000, 500, 1}, modelTime(1))
	l.tell(c, modelTime(1))
	say(l, 2, 2, 100e3, 30e3) // whether 1000 of them are ours or not is not known
	if got := used(l, 2); !near(got, 30e3, 1) {
		t.Errorf("%.0f tokens in use, want those of the report", got)
	}
	if got := l.status(modelTime(2)).Drift; !near(got, 0.29, 0.001) {
		t.Errorf("a drift of %.3f, want 0.29", got)
	}
	l.end(c, -1, false, modelTime(3))
	if got := used(l, 3); !near(got, 29e3, 100) {
		t.Errorf("%.0f tokens in use after ours has ended, want those of others", got)
	}
	say(l, 4, 4, 100e3, 0)
	if got := used(l, 4); got != 0 {
		t.Errorf("%.0f tokens in use, want none, as the engine says", got)
	}
	if got := l.others.mostAt(l.steps); got < 25e3 {
		t.Errorf("%.0f tokens are left to others, want nearly what they just had", got)
	}
	if got := l.others.mostAt(l.steps + 60*firstRate); got > 100 {
		t.Errorf("%.0f tokens are left to others who had none for a minute", got)
	}
}

// TestLedgerSharesBlocks: requests whose prompts begin alike share blocks, so
// that we count too much. What is too much ends with them.
func TestLedgerSharesBlocks(t *testing.T) {
	l, h := ledgerOf(100e3, 0)
	claims := make([]claim, 10)
	for i := range claims {
		l.grant(&claims[i], need{h, 4000, 500, 1}, modelTime(1))
		l.begin(&claims[i], modelTime(1))
	}
	say(l, 2, 2, 100e3, 4e3)
	if got := used(l, 2); !near(got, 4e3, 100) {
		t.Errorf("%.0f tokens in use, want those of the report", got)
	}
	for i := range 5 {
		l.end(&claims[i], firstRate, true, modelTime(2))
	}
	if got := used(l, 2); !near(got, 2e3, 300) {
		t.Errorf("%.0f tokens in use after half have ended, want half", got)
	}
	for i := range 5 {
		l.end(&claims[5+i], firstRate, true, modelTime(2))
	}
	if got := used(l, 2); !near(got, 0, 100) {
		t.Errorf("%.0f tokens in use after all have ended", got)
	}
}

func TestFits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		used   float64 // by others
		claims int     // of ours, of 1000 tokens and 100 of answer
		bytes  int
		limit  int
		want   space
	}{
		{"a request on an idle worker", 0, 0, 4000, 100, spaceNow},
		{"on an idle worker, with an answer larger than the cache", 0, 0, 4000, 1e6, spaceNow},
		{"as large as an idle worker", 0, 0, 4 * 9900, 0, spaceNow},
		{"larger than any worker", 0, 0, 4 * 11000, 1, spaceNever},
		{"larger than any worker, on a full one", 0, 8, 4 * 11000, 1, spaceNever},
		{"beside others", 0, 5, 4000, 0, spaceNow},
		{"with a limit that is never reached", 0, 5, 4000, 1e6, spaceNow},
		{"whose answer has no place", 0, 8, 4000, 0, spaceLater},
		{"beside those of other routers", 2e3, 3, 4000, 0, spaceNow},
		{"where other routers have filled it", 7e3, 3, 4000, 0, spaceLater},
		{"the first of ours where other routers leave space", 8e3, 0, 4000, 0, spaceNow},
		{"the first of ours where other routers leave none", 9.5e3, 0, 4000, 0, spaceLater},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, h := ledgerOf(10e3, tt.used)
			for range tt.claims {
				c := &claim{}
				l.grant(c, need{h, 4000, 0, 1}, modelTime(1))
				l.begin(c, modelTime(1))
			}
			ours := l.held().most
			for i := 2; i < 90; i++ { // until it is settled who has what
				l.advance(modelTime(float64(i)))
				for _, c := range l.claims {
					l.setGrown(c, 20)
				}
				say(l, float64(i), float64(i), 10e3, tt.used+ours+20*float64(tt.claims))
			}
			if got := l.fits(need{h, tt.bytes, tt.limit, 1}, modelTime(90)); got != tt.want {
				t.Errorf("fits = %d, want %d; %+v", got, tt.want, l.status(modelTime(90)))
			}
		})
	}
}

// TestColdLedgerExpectsTheLimit: before anything is known of answers, each is
// taken to become as long as it may.
func TestColdLedgerExpectsTheLimit(t *testing.T) {
	for _, tt := range []struct{ limit, want int }{{0, 1}, {50e3, 1}, {4000, 19}, {1000, 49}} {
		l, h := &ledger{}, newHabits()
		say(l, 0, 0, 100e3, 0)
		l.others.until = 0 // nobody else is there
		n := 0
		for l.fits(need{h, 3000, tt.limit, 1}, modelTime(1)) == spaceNow {
			l.grant(&claim{}, need{h, 3000, tt.limit, 1}, modelTime(1))
			n++
		}
		if n != tt.want {
			t.Errorf("%d requests with a limit of %d have space, want %d", n, tt.limit, tt.want)
		}
	}
}

// TestTwoLedgersLeaveSpace: two routers that see the same free space do not
// both take all of it before they see each other.
func TestTwoLedgersLeaveSpace(t *testing.T) {
	total := 0.0
	for range 2 {
		l, h := ledgerOf(100e3, 0)
		for l.fits(need{h, 4000, 500, 1}, modelTime(1)) == spaceNow {
			l.grant(&claim{}, need{h, 4000, 500, 1}, modelTime(1))
		}
		say(l, 1.05, 1.05, 100e3, 0) // this shows nothing yet
		for l.fits(need{h, 4000, 500, 1}, modelTime(1.1)) == spaceNow {
			l.grant(&claim{}, need{h, 4000, 500, 1}, modelTime(1.1))
		}
		total += l.status(modelTime(1.1)).Reserved
	}
	if total > 100e3 || total < 80e3 {
		t.Errorf("two routers reserved %.0f tokens of 100000", total)
	}
}

func TestLedgerIsUnknownWithoutReports(t *testing.T) {
	l := &ledger{}
	r := unknown()
	r.At, r.KVCapacity = modelTime(0), 100e3
	l.report(&r, modelTime(0))
	c := &claim{}
	l.grant(c, need{newHabits(), 4000, 0, 1}, modelTime(1))
	l.begin(c, modelTime(2))
	s := l.status(modelTime(3))
	if l.known() || !math.IsNaN(s.Used) || !math.IsNaN(s.Capacity) || !math.IsNaN(s.Free) || !math.IsNaN(s.Drift) || !math.IsNaN(s.SecondsFull) {
		t.Errorf("known %t, %+v; want NaN", l.known(), s)
	}
	say(l, 4, 4, 100e3, 1300) // now it tells
	if s := l.status(modelTime(4)); !near(s.Used, 1300, 5) {
		t.Errorf("%.0f tokens in use, want those of the report", s.Used)
	}
	l.end(c, 10, true, modelTime(5))
}

func TestLedgerTellsSecondsToFull(t *testing.T) {
	l, _ := ledgerOf(100e3, 0)
	if s := l.status(modelTime(1)).SecondsFull; !math.IsInf(s, 1) {
		t.Errorf("an idle engine is full in %.0f s", s)
	}
	for i := 1; i <= 60; i++ {
		say(l, float64(i), float64(i), 100e3, 500*float64(i))
	}
	if s := l.status(modelTime(60)).SecondsFull; !near(s, 140, 30) {
		t.Errorf("full in %.0f s, want some 140", s)
	}
}

func TestStaleReportsWidenTheMargin(t *testing.T) {
	l, _ := ledgerOf(100e3, 0)
	l.others.until = 0 // nobody else is there
	for _, tt := range []struct{ at, want float64 }{{0, 0.99}, {5, 0.965}, {600, 0.8}} {
		if s := l.status(modelTime(tt.at)); !near(s.Free, tt.want*100e3, 1) || s.Age != time.Duration(tt.at*float64(time.Second)) {
			t.Errorf("%.0f tokens free by a report %v old, want %.0f", s.Free, s.Age, tt.want*100e3)
		}
	}
}

// lease is the life of one lease.
func lease(l *ledger, h *habits, c *claim, at float64) bool {
	now := modelTime(at)
	n := need{h, 4000, 2000, 1}
	if l.fits(n, now) != spaceNow {
		return false
	}
	l.grant(c, n, now)
	l.promptIs(c, 1000, now)
	l.tell(c, now)
	l.begin(c, now)
	l.end(c, 100, true, now)
	return true
}

// busy returns a ledger with so many claims that have begun at different times.
func busy(n int) (*ledger, *habits) {
	l, h := ledgerOf(1e9, 0)
	for i := range n {
		c := &claim{}
		l.grant(c, need{h, 4000, 2000, 1}, modelTime(float64(i)*0.01))
		l.begin(c, modelTime(float64(i)*0.01))
	}
	return l, h
}

func TestLedgerAllocatesNothing(t *testing.T) {
	l, h := busy(40)
	c, at := &claim{}, 10.0
	if n := testing.AllocsPerRun(100, func() {
		at += 0.1
		if !lease(l, h, c, at) {
			t.Fatal("no space")
		}
		say(l, at, at, 1e9, 50e3)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkLedger(b *testing.B) {
	for _, bb := range []struct {
		name   string
		claims int
		gap    float64 // seconds between leases
	}{{"40 claims", 40, 0.002}, {"400 claims", 400, 0.002}, {"400 claims, not busy", 400, 1}} {
		b.Run(bb.name, func(b *testing.B) {
			l, h := busy(bb.claims)
			c, at := &claim{}, 10.0
			b.ReportAllocs()
			for b.Loop() {
				at += bb.gap
				lease(l, h, c, at)
			}
		})
	}
}

// TestRoomyIsNeverWrong: what has room by the quick bound has room.
func TestRoomyIsNeverWrong(t *testing.T) {
	dice := rand.New(rand.NewPCG(5, 6))
	yes := 0
	for range 300 {
		l, h := &ledger{}, newHabits()
		for range 1 + dice.IntN(60) {
			n := dice.ExpFloat64() * 300
			h.promptIs(4000, 1000)
			h.lengths.pass(-1, binOf(n))
			h.lengths.end(binOf(n))
		}
		say(l, 0, 0, 100e3, 0)
		l.wait = dice.Float64() * 3
		at := 1.0
		for range 60 {
			at += dice.Float64()
			n := need{h, 1000 + dice.IntN(20e3), dice.IntN(2) * dice.IntN(3000), 1}
			l.fits(n, modelTime(at))
			c := &l.asking
			l.claimOf(c, n)
			roomy := l.roomy(c)
			l.foresee(c)
			then := l.outlook
			then.add(&c.course, 1)
			ours, all := l.needs(&then, h.lengths.answers)
			room := all <= l.capacity && (ours <= l.ration.most || !l.rationed())
			if roomy && !room {
				t.Fatalf("a request has room, but needs %.0f of %.0f, ours %.0f of a ration of %.0f", all, l.capacity, ours, l.ration.most)
			}
			if roomy {
				yes++
			}
			if room {
				c := &claim{}
				l.grant(c, n, modelTime(at))
				if dice.IntN(2) == 0 {
					l.begin(c, modelTime(at))
				}
			}
		}
	}
	if yes < 300 {
		t.Errorf("only %d had room by the quick bound", yes)
	}
}
