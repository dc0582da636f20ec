package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(body string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}
}

func dueAt(ms ...int64) []Request {
	reqs := make([]Request, len(ms))
	for i, at := range ms {
		reqs[i] = Request{Timestamp: at, InputLength: 10, OutputLength: 2, HashIDs: []int64{int64(i)}}
	}
	return reqs
}

func TestReplaySendsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		sent := make(chan time.Duration, 3)
		c := &Client{URL: "http://router", HTTP: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			sent <- time.Since(began)
			return answer(event1 + event2 + usage + done), nil
		})}}
		var tally Tally
		p := Replay{Client: c, Speed: 10}
		if err := p.Run(t.Context(), dueAt(0, 3000, 9000), &tally); err != nil {
			t.Fatal(err)
		}
		for _, want := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
			if got := <-sent; got != want {
				t.Errorf("sent at %v, want %v", got, want)
			}
		}
		n := tally.Totals()
		if n.Sent != 3 || n.Done != 3 || n.Failed != 0 || n.PromptTokens != 27 || n.CachedTokens != 12 || n.Tokens != 6 {
			t.Errorf("totals = %+v", n)
		}
		if n.TTFT.Count() != 3 || n.ITL.Count() != 3 || n.Lag.Quantile(1) > time.Microsecond {
			t.Errorf("%d TTFT, %d ITL, a lag of %v", n.TTFT.Count(), n.ITL.Count(), n.Lag.Quantile(1))
		}
	})
}

func TestReplayBoundsOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int32
		c := &Client{URL: "http://router", HTTP: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			time.Sleep(time.Second)
			return answer(event1 + done), nil
		})}}
		var tally Tally
		p := Replay{Client: c, MaxOpen: 2}
		if err := p.Run(t.Context(), dueAt(0, 0, 0, 0, 0, 0), &tally); err != nil {
			t.Fatal(err)
		}
		n := tally.Totals()
		if most.Load() != 2 || n.Done != 6 {
			t.Errorf("%d requests were open at once, %d are done; want 2 and 6", most.Load(), n.Done)
		}
		if lag := n.Lag.Quantile(1); lag < 1980*time.Millisecond || lag > 2020*time.Millisecond {
			t.Errorf("the last request was sent %v late, want 2s", lag)
		}
	})
}

func TestReplayGoesOnAfterAFailure(t *testing.T) {
	asked := 0
	c := &Client{URL: "http://router", HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if asked++; r.Header.Get("X-Request-Id") == "t-2" {
			return nil, errors.New("connection refused")
		}
		return answer(event1 + done), nil
	})}}
	var tally Tally
	p := Replay{Client: c, MaxOpen: 1, Name: "t-"}
	if err := p.Run(t.Context(), dueAt(0, 0, 0), &tally); err != nil {
		t.Fatal(err)
	}
	n := tally.Totals()
	if asked != 3 || n.Done != 3 || n.Failed != 1 || n.TTFT.Count() != 2 {
		t.Errorf("totals = %+v after %d requests, want 3 done and one of them failed", n, asked)
	}
	if len(n.Faults) != 1 || !strings.Contains(n.Faults[0], "request 2 of the trace") || !strings.Contains(n.Faults[0], "connection refused") {
		t.Errorf("faults = %q", n.Faults)
	}
}

func TestReplayEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := &Client{URL: "http://router", HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}}
		var tally Tally
		err := (&Replay{Client: c}).Run(ctx, dueAt(0, 500, 5000), &tally)
		n := tally.Totals()
		if !errors.Is(err, context.DeadlineExceeded) || n.Sent != 2 || n.Done != 0 || n.Failed != 0 || n.Open() != 2 {
			t.Errorf("Run = %v with %d sent, %d done, %d failed; want two that were open", err, n.Sent, n.Done, n.Failed)
		}
	})
}

// TestReplayOnAnEngine plays the first bursts of the public trace: every text
// is the right one, and the engine finds the block that all prompts share.
func TestReplayOnAnEngine(t *testing.T) {
	e, c := startEngine(t)
	reqs, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	reqs = Before(reqs, 6*time.Second)
	var tally Tally
	p := Replay{Client: c, Speed: 60, MaxOpen: 64}
	if err := p.Run(t.Context(), reqs, &tally); err != nil {
		t.Fatal(err)
	}
	total, repeated := Lengths(reqs)
	n, st := tally.Totals(), e.Stats()
	if n.Failed != 0 || n.Done != len(reqs) || n.PromptTokens != total {
		t.Errorf("totals = %+v, want %d requests with %d prompt tokens", n, len(reqs), total)
	}
	if n.CachedTokens == 0 || n.CachedTokens > repeated || n.CachedTokens != int(st.HitTokens) {
		t.Errorf("answers say that %d tokens were cached, the engine says %d, the trace repeats %d", n.CachedTokens, st.HitTokens, repeated)
	}
	if st.UsedBlocks != 0 || len(e.Violations()) > 0 {
		t.Errorf("%d blocks are in use, violations: %q", st.UsedBlocks, e.Violations())
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"timestamp": 5, "input_length": 513, "output_length": 3, "hash_ids": [7, 9]}`))
	f.Add(conversation[:2000])
	f.Fuzz(func(t *testing.T, b []byte) {
		reqs, err := ReadTrace(bytes.NewReader(b))
		if err != nil && reqs != nil {
			t.Errorf("ReadTrace = %d requests and %v", len(reqs), err)
		}
		for _, r := range reqs {
			if r.InputLength < 1<<16 && len(r.Prompt()) != r.InputLength*BytesPerToken {
				t.Errorf("%+v has a prompt of %d bytes", r, len(r.Prompt()))
			}
		}
	})
}
