package record

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestEveryPhaseIsTimedAndAFurtherAttemptBeginsAnew(t *testing.T) {
	b, start := NewBook(4), time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	r := b.Begin(start, "a")
	r.Asks(at(1), Asked{Model: "m", Streaming: true})
	r.Leased(Attempt{Leased: at(5), Prefill: "p0", Decode: "d0", Choice: Choice{Candidates: []Candidate{{Worker: "p0"}, {Worker: "p1"}}}})
	r.Prefilled(at(20))
	r.Over(at(30), "decode", "decode_upstream_error", "it died")
	if p := r.Phase(); p != HandOff {
		t.Errorf("an attempt that ended in phase %v, want %v", p, HandOff)
	}
	r.Again()
	if v := r.View(); v.Phase != Admit || v.Attempts[0].Reason != "it died" || !v.Attempts[0].Prefilled.Equal(at(20)) {
		t.Errorf("after an attempt that failed: phase %v, attempt %+v", v.Phase, v.Attempts[0])
	}
	r.Leased(Attempt{Leased: at(40), Prefill: "p1", Decode: "d1", Choice: Choice{Candidates: []Candidate{{Worker: "p1"}}}})
	if v := r.View(); v.Phase != Prefill || !v.At[HandOff].IsZero() || !v.At[Prefill].Equal(at(40)) {
		t.Errorf("in the second attempt: phase %v at %v", v.Phase, v.At)
	}
	r.Prefilled(at(60))
	gaps := []time.Duration{r.Token(at(100)), r.Token(at(110)), r.Token(at(140))}
	r.Over(at(141), "", "", "")
	b.End(r, &End{At: at(150), Status: 200, Keep: true})

	v := b.Find("a")[0]
	if want := []time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond}; !slices.Equal(gaps, want) {
		t.Errorf("gaps %v, want %v", gaps, want)
	}
	for p, want := range []int{1, 39, 20, 40, 50} {
		if took, ok := v.Took(Phase(p), at(9999)); !ok || took != time.Duration(want)*time.Millisecond {
			t.Errorf("%v took %v, want %d ms", Phase(p), took, want)
		}
	}
	if v.TTFT() != 100*time.Millisecond || v.ITL() != 20*time.Millisecond || v.Longest != 30*time.Millisecond {
		t.Errorf("TTFT %v, ITL %v, longest %v", v.TTFT(), v.ITL(), v.Longest)
	}
	if len(v.Attempts) != 2 || len(v.Attempts[0].Choice.Candidates) != 2 || len(v.Attempts[1].Choice.Candidates) != 1 {
		t.Errorf("attempts %+v", v.Attempts)
	}
	if v.Running() || v.Name(HandOff) != "hand-off" {
		t.Errorf("%+v", v)
	}
}

// TestPhasesThatOverlap: in a dialect whose legs run at once, decode's first token
// may come before prefill's verdict.
func TestPhasesThatOverlap(t *testing.T) {
	b, start := NewBook(1), time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	r := b.Begin(start, "a")
	r.Asks(start, Asked{Streaming: true})
	r.Leased(Attempt{Leased: start})
	r.Token(at(20))
	r.Prefilled(at(25))
	v := r.View()
	for p, want := range map[Phase]int{Prefill: 20, HandOff: 0, Relay: 80} {
		if took, _ := v.Took(p, at(100)); took != time.Duration(want)*time.Millisecond {
			t.Errorf("%v took %v, want %d ms", p, took, want)
		}
	}
}

func TestTheLastOnesAreKeptLatestFirst(t *testing.T) {
	b := NewBook(3)
	for i := range 7 {
		r := b.Begin(time.Unix(int64(i), 0), fmt.Sprint(i%5))
		b.End(r, &End{At: time.Unix(int64(i), 1), Keep: i != 5})
	}
	ids := func(views []View) (ids []string) {
		for _, v := range views {
			ids = append(ids, fmt.Sprintf("%d %s", v.Number, v.ID))
		}
		return ids
	}
	if got, want := ids(b.Ended(9)), []string{"7 1", "5 4", "4 3"}; !slices.Equal(got, want) {
		t.Errorf("ended %v, want %v", got, want)
	}
	if got := ids(b.Ended(1)); len(got) != 1 {
		t.Errorf("%v, asked for one", got)
	}
	if got := b.Find("0"); len(got) != 0 {
		t.Errorf("found one that was not to be kept: %v", ids(got))
	}
	if n := len(b.Running()); n != 0 {
		t.Errorf("%d still run", n)
	}
}

// TestReadersSeeWholeRecords: a view is of one request, also while records are
// used again. Each writes its number wherever it can.
func TestReadersSeeWholeRecords(t *testing.T) {
	b := NewBook(8)
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := range 2000 {
				id := fmt.Sprintf("%d-%d", w, i)
				r := b.Begin(time.Now(), id)
				r.Asks(time.Now(), Asked{Model: id})
				for range rand.IntN(3) {
					r.Leased(Attempt{Prefill: id, Leased: time.Now(), Choice: Choice{Candidates: []Candidate{{Worker: id}}}})
					r.Prefilled(time.Now())
					r.Token(time.Now())
				}
				b.End(r, &End{At: time.Now(), Reason: id, Keep: i%3 != 0})
			}
		})
	}
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, v := range append(append(b.Running(), b.Ended(8)...), b.Find("0-7")...) {
				if v.Model != "" && v.Model != v.ID || v.Reason != "" && v.Reason != v.ID {
					t.Errorf("a record of two requests: %+v", v)
				}
				for _, a := range v.Attempts {
					if a.Prefill != v.ID || a.Choice.Candidates[0].Worker != v.ID {
						t.Errorf("an attempt of another request: %+v in %s", a, v.ID)
					}
				}
			}
			b.Ages(time.Now())
		}
	})
	writers.Wait()
	close(done)
	readers.Wait()
	if n := len(b.Running()); n != 0 {
		t.Errorf("%d still run", n)
	}
}

func TestARecordAllocatesNothing(t *testing.T) {
	b := NewBook(2)
	now := time.Now()
	candidates := make([]Candidate, 8)
	one := func() {
		r := b.Begin(now, "x")
		r.Asks(now, Asked{})
		r.Leased(Attempt{Leased: now, Choice: Choice{Candidates: candidates}})
		r.Token(now)
		b.End(r, &End{At: now, Keep: true})
	}
	for range 8 {
		one()
	}
	n := 1.0
	for range 50 { // a sync.Pool forgets now and then, under the race detector a quarter
		n = min(n, testing.AllocsPerRun(2, one))
	}
	if n != 0 {
		t.Errorf("%v allocations for a request", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	book := NewBook(1024)
	now := time.Now()
	candidates := make([]Candidate, 8)
	b.ReportAllocs()
	for b.Loop() {
		r := book.Begin(now, "x")
		r.Is("chat")
		r.Asks(now, Asked{})
		r.Leased(Attempt{Leased: now, Choice: Choice{Candidates: candidates}})
		r.Room(1)
		r.Prefilled(now)
		r.Sent(now)
		r.Token(now)
		r.Counts(Counted{})
		r.Over(now, "", "", "")
		book.End(r, &End{At: now, Keep: true})
	}
}

func BenchmarkToken(b *testing.B) {
	r := NewBook(1).Begin(time.Now(), "x")
	for b.Loop() {
		r.Token(time.Now())
	}
}
