package health

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/workers"
)

// TestBegan is about streams that are the trials of a breaker and go on long
// after their first token.
func TestBegan(t *testing.T) {
	cfg := DefaultConfig()
	opened := func(t *testing.T, f *fleet, outcome error) {
		f.decoding(t, 10, outcome)
		time.Sleep(75 * time.Second)
	}
	// tried lets in a stream whose prefill leg has ended and whose first token
	// has come.
	tried := func(t *testing.T, f *fleet) *workers.Permit {
		p := f.open(t, 0, 0)
		f.Ended(p, workers.Prefill, nil)
		f.Began(p)
		return p
	}
	for name, f := range map[string]func(*testing.T, *fleet){
		"three first tokens close it, while the streams go on": func(t *testing.T, f *fleet) {
			opened(t, f, sick())
			var streams []*workers.Permit
			for range cfg.SuccessThreshold {
				streams = append(streams, tried(t, f))
			}
			if !f.ward(f.decode[0]).breaker.closed() || f.isOpen(f.decode[0]) {
				t.Fatal("it is not closed")
			}
			for _, s := range streams {
				f.Ended(s, workers.Decode, nil)
			}
			if got := f.Breakers().Workers[2]; got.Worker != f.decode[0].URL || got.Successes != 3 {
				t.Errorf("%d successes of %s are booked, want each stream once", got.Successes, got.Worker)
			}
		},
		"the next trial need not wait for the end of the stream": func(t *testing.T, f *fleet) {
			opened(t, f, sick())
			first := tried(t, f)
			second := f.open(t, 0, 0)
			f.end(second, nil, nil)
			f.Ended(first, workers.Decode, nil)
		},
		"a death after the first token opens it again while it is half-open": func(t *testing.T, f *fleet) {
			opened(t, f, sick())
			first := tried(t, f)
			second := f.open(t, 0, 0) // is under way at that moment
			f.Ended(first, workers.Decode, sick())
			if !f.isOpen(f.decode[0]) || f.try(0, 0, nil, nil) {
				t.Fatal("it is not open")
			}
			f.end(second, nil, nil)
			if !f.isOpen(f.decode[0]) {
				t.Error("what was let in before it opened closes it")
			}
			want := []string{"decode-0 closed>open", "decode-0 open>half-open", "decode-0 half-open>open"}
			if got := f.history(Breaker); !slices.Equal(got, want) {
				t.Errorf("events are %q, want %q", got, want)
			}
		},
		"a death after it was closed is one failure": func(t *testing.T, f *fleet) {
			opened(t, f, sick())
			var streams []*workers.Permit
			for range cfg.SuccessThreshold {
				streams = append(streams, tried(t, f))
			}
			f.Ended(streams[2], workers.Decode, sick())
			if got := f.Breakers().Workers[2]; got.Failing != 1 || f.isOpen(f.decode[0]) {
				t.Errorf("%d failures in a row, open %v, want one failure", got.Failing, f.isOpen(f.decode[0]))
			}
			f.Ended(streams[1], workers.Decode, left())
		},
		"a stream that we cancel after its first token has been a success": func(t *testing.T, f *fleet) {
			opened(t, f, sick())
			for range cfg.SuccessThreshold {
				f.Ended(tried(t, f), workers.Decode, left())
			}
			if !f.ward(f.decode[0]).breaker.closed() {
				t.Error("it is not closed")
			}
		},
		"a pair's breaker closes by first tokens too": func(t *testing.T, f *fleet) {
			f.decoding(t, 10, untaken())
			if f.pairBarOf(f.prefill[0], f.decode[0]) == 0 {
				t.Fatal("the pair is not barred")
			}
			time.Sleep(75 * time.Second)
			var streams []*workers.Permit
			for range cfg.SuccessThreshold {
				streams = append(streams, tried(t, f))
			}
			both := f.ward(f.prefill[0]).pairOf(f.decode[0])
			if !both.breaker.closed() || f.pairBarOf(f.prefill[0], f.decode[0]) > 0 {
				t.Error("it is not closed")
			}
			for _, s := range streams {
				f.Ended(s, workers.Decode, nil)
			}
			if _, tally := both.breaker.look(); tally.successes != 3 {
				t.Errorf("%d successes are booked, want 3", tally.successes)
			}
		},
		"a restart in between leaves nothing of it": func(t *testing.T, f *fleet) {
			opened(t, f, sick())
			p := f.open(t, 0, 0)
			now := time.Now()
			f.Reported(f.decode[0], workers.Report{At: now, Started: now.Add(-time.Hour)}, workers.Report{At: now, Started: now}, nil)
			f.Began(p)
			f.end(p, nil, sick())
			if got := f.Breakers().Workers[2]; got.Failing != 0 || got.Successes != 0 {
				t.Errorf("%d failures and %d successes are booked of the engine that is no more", got.Failing, got.Successes)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newFleet(cfg, 2, 2)) })
		})
	}
}

func TestBeganAllocatesNothing(t *testing.T) {
	f := newFleet(DefaultConfig(), 1, 1)
	permit := f.open(t, 0, 0)
	if n := testing.AllocsPerRun(1000, func() { f.Began(permit) }); n > 0 {
		t.Errorf("a first token allocates %v times", n)
	}
}
