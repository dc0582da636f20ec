package metrics

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var update = flag.Bool("update", false, "write testdata/exposition.txt anew")

// traffic counts one of everything.
func traffic(t *testing.T) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, Config{DurationBuckets: []float64{0.1, 1}, PrefillPolicy: "cache_aware", DecodePolicy: "least_load"})
	WatchState(reg, State{
		Ages: func() []time.Duration { return []time.Duration{time.Second, 31 * time.Second, 48 * time.Hour} },
		Crowd: func() Crowd {
			return Crowd{Open: 9, Waiting: 3, Lacking: map[string]int{"slots": 0, "prefill": 1, "decode": 2}, Classes: map[string]int{"system": 0, "interactive": 1, "default": 2, "bulk": 0}}
		},
		BufferedBytes: func() int64 { return 4096 },
		RetryBudget:   func() float64 { return 99.2 },
		Workers: func() []WorkerState {
			return []WorkerState{
				{URL: "http://p0", Role: "prefill", Models: []string{"m"}, Ready: true, InFlight: 2, CacheHits: 1000, CacheQueries: 4000},
				{URL: "http://d0", Role: "decode", CacheHits: math.NaN(), CacheQueries: math.NaN()},
			}
		},
	})
	broken := Breaker{State: BreakerHalfOpen, Failures: 12, Successes: 30, Failing: 10}
	broken.Moves[BreakerClosed][BreakerOpen], broken.Moves[BreakerOpen][BreakerHalfOpen] = 2, 1
	WatchBreakers(reg, func() Breakers {
		return Breakers{
			Workers: []WorkerBreaker{{Worker: "http://p0", Breaker: Breaker{Successes: 7, Succeeding: 7}}, {Worker: "http://d0", Breaker: broken}},
			Pairs:   []PairBreaker{{Prefill: "http://p0", Decode: "http://d0", Breaker: Breaker{State: BreakerOpen}}},
		}
	})
	WatchKVEvents(reg, func() []WorkerKV {
		return []WorkerKV{{Worker: "http://p0", Followed: true, Exact: true, Counts: KVCounts{Stored: 9, Removed: 3, Gaps: 1, Replayed: 2}}, {Worker: "http://d0"}}
	})
	WatchKVSpace(reg, func() []WorkerSpace {
		return []WorkerSpace{
			{"http://d0", "decode", 100000, 62000, 81000, -0.02, 120, 0.5},
			UnknownSpace("http://d1", "decode"),
		}
	})
	reloads := NewReloads(reg, time.Unix(1700000000, 0))
	reloads.Ended(true, time.Unix(1700000100, 0))
	reloads.Ended(false, time.Unix(1700000200, 0))
	WatchLearnt(reg, func() Learnt {
		return Learnt{BytesPerToken: 3.5, Workers: []LearntWorker{
			{Worker: "http://p0", Role: "prefill", Blocks: 100, Keeps: 5000, Kept: 0.75, LegSeconds: 0.02, TokenSeconds: 0.0001, Backlog: 1.5, Foreign: 0.25},
			{Worker: "http://p1", Role: "prefill", Keeps: 6000, Kept: 1, LegSeconds: math.NaN(), TokenSeconds: math.NaN()},
			{Worker: "http://d0", Role: "decode", Blocks: 90, Keeps: 6000, Kept: 1},
		}}
	})
	r := m.Route(http.MethodPost, "/v1/chat/completions")
	r.Arrived()
	r.Answered(502, "decode_request_failed", time.Second/2)
	w := m.Work("m", "chat", "vllm-nixl", true)
	w.Begun()
	w.Attempted()
	w.Prefilled(time.Second)
	w.FirstToken(2*time.Second, time.Second, time.Second/2)
	w.Succeeded(3 * time.Second)
	w.Tokens(100, 11, time.Second)
	m.LetIn(true)
	m.LetIn(false)
	w.Failed(502)
	m.AnswerEnded(Truncated)
	m.LegEnded("decode", "http://d0", LegFailed)
	m.Leased(time.Second / 4)
	m.Upstream(200, "")
	m.Departed(MidAnswer)
	m.KeysDropped(2)
	m.BootstrapFailed()
	m.HandOffMissing()
	m.VerdictLate()
	m.Orphaned()
	m.Untold()
	m.Retried("chat", 1, 50*time.Millisecond)
	m.RetriesExhausted("chat")
	m.RetryDenied()
	m.Waited("decode", WaitShed, time.Minute)
	m.Waited("slots", WaitAdmitted, time.Second)
	m.Shed("decode", true)
	m.Shed("slots", false)
	m.Claimed(Capped)
	m.CanaryEnded(CanaryFailed)
	m.Chosen(8, 4, 6)
	m.Chosen(0, 0, 0)
	m.PrefillFound("http://p0", 1000, 512, -1)
	m.PrefillFound("http://p0", 1000, 512, 640)
	m.PrefillFound("http://gone", 1000, 512, 640)
	m.LegEnded("prefill", "http://gone", LegOK)
	m.Forget("http://gone")
	return reg
}

// TestExposition compares all that is exported with a file, so that a changed
// name or label shows in a review.
func TestExposition(t *testing.T) {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	Handler(traffic(t)).ServeHTTP(rec, req)
	var kept bytes.Buffer
	for line := range strings.Lines(rec.Body.String()) {
		if !strings.Contains(line, "promhttp_") {
			kept.WriteString(line)
		}
	}
	const file = "testdata/exposition.txt"
	if *update {
		if err := os.WriteFile(file, kept.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept.Bytes(), want) {
		t.Errorf("the exposition has changed; run go test ./metrics -update and look at the diff\n%s", kept.String())
	}
}

func TestNamesPassPromlint(t *testing.T) {
	problems, err := testutil.GatherAndLint(traffic(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "smg_") {
			continue // smg's names are as they are
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestSMGFamilies compares the smg families that are ours by now with what was
// scraped from smg 1.13: type, labels and buckets.
func TestSMGFamilies(t *testing.T) {
	text, err := os.ReadFile("testdata/smg-1.13-families.tsv")
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 4 {
			theirs[f[0]] = f
		}
	}
	families, err := traffic(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	for _, family := range families {
		want, ok := theirs[family.GetName()]
		if !ok {
			continue
		}
		shared++
		if kind := strings.ToLower(family.GetType().String()); kind != want[1] {
			t.Errorf("%s is a %s, smg's is a %s", family.GetName(), kind, want[1])
		}
		var labels []string
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if got := strings.Join(labels, ","); got != want[2] && want[2] != "-" {
			t.Errorf("%s has the labels %s, smg's has %s", family.GetName(), got, want[2])
		}
	}
	if shared < 10 {
		t.Errorf("only %d families are shared with smg", shared)
	}
	got := strings.Trim(strings.Join(strings.Fields(strings.ReplaceAll(strings.Trim(fmt.Sprint(DefaultConfig().DurationBuckets), "[]"), " ", ",")), ","), ",")
	if want := strings.TrimSuffix(theirs["smg_router_request_duration_seconds"][3], ",+Inf"); got != want {
		t.Errorf("buckets = %s, smg's are %s", got, want)
	}
}

func TestBothPathsAreScraped(t *testing.T) {
	h := Handler(traffic(t))
	for _, path := range []string{"/metrics", "/metrics/"} { // BUG-086
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		if rec.Code != http.StatusOK || !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("GET %s = %d %s", path, rec.Code, rec.Header().Get("Content-Type"))
		}
	}
}

func TestCountingDoesNotAllocate(t *testing.T) {
	m := New(prometheus.NewRegistry(), DefaultConfig())
	m.Work("m", "chat", "sglang", false)
	n := testing.AllocsPerRun(100, func() {
		w := m.Work("m", "chat", "sglang", false)
		w.Begun()
		w.FirstToken(1, 1, 0)
		w.Succeeded(1)
	})
	if n != 0 {
		t.Errorf("counting a request makes %v allocations, want 0", n)
	}
}
