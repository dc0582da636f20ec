package metrics

import (
	"bytes"
	"flag"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write testdata/exposition.txt anew")

// traffic counts one of everything.
func traffic(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, Config{DurationBuckets: []float64{0.1, 1}, PrefillPolicy: "cache_aware", DecodePolicy: "least_load"})
	m.WatchState(reg, State{
		Ages: func() []time.Duration { return []time.Duration{time.Second, 31 * time.Second, 48 * time.Hour} },
		Crowd: func() Crowd {
			return Crowd{Open: 9, Limit: 12, Waiting: 3, Lacking: map[string]int{"slots": 0, "prefill": 1, "decode": 2}, Classes: map[string]int{"system": 0, "interactive": 1, "default": 2, "bulk": 0}}
		},
		BufferedBytes: func() int64 { return 4096 },
		RetryBudget:   func() float64 { return 99.2 },
		Workers: func() []WorkerState {
			return []WorkerState{
				{
					URL: "http://p0", Role: "prefill", Models: []string{"m"}, Ready: true, InFlight: 2, Polls: 7, Space: UnknownSpace(),
					Engine: Engine{
						Running: 1, Waiting: 2, TransferQueue: 3, Evictable: 4000, Usage: 0.5,
						Preempted: math.NaN(), PromptTokens: 4096, GeneratedTokens: 50, TransferredIn: math.NaN(), Computed: 3000,
						Transfers: 40, TransferSeconds: 2.5, TransferFailures: 1, TransfersExpired: 2, CacheHits: 1000, CacheQueries: 4000,
						Generating: 5, HandOff: 0.0625, Transferred: 2e9,
					},
				},
				{URL: "http://d0", Role: "decode", Draining: true, Most: 64, Space: Space{100000, 62000, 81000, -0.02, 120, 0.5}, Engine: UnknownEngine()},
				{URL: "http://d1", Role: "decode", Models: []string{"m"}, Space: UnknownSpace(), Engine: Engine{Lost: true, Running: 3, Computed: 12}},
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
	WatchBranches(reg, func() PolicyBranches {
		return PolicyBranches{&ConsistentBranches{7, 1}, &PrefixBranches{5, 2, 1}, &ManualBranches{6, 1, 2, 3, 8}}
	})
	reloads := NewReloads(reg, time.Unix(1700000000, 0))
	reloads.Ended(true, time.Unix(1700000100, 0))
	reloads.Ended(false, time.Unix(1700000200, 0))
	WatchProbes(reg, func() Probes { return Probes{Prefill: ProbeCounts{9, 1}, Decode: ProbeCounts{8, 0}} })
	WatchInfo(reg, func() Info {
		return Info{Version: "v1.0.0", Revision: "abc", Go: "go1.26", PrefillPolicy: "cache_aware", DecodePolicy: "least_load", Discovery: "file", MostRequests: "12"}
	})
	WatchLearnt(reg, func() Learnt {
		return Learnt{BytesPerToken: 3.5, Workers: []LearntWorker{
			{Worker: "http://p0", Role: "prefill", Blocks: 100, Keeps: 5000, Kept: 0.75, LegSeconds: 0.02, TokenSeconds: 0.0001, Backlog: 1.5, Foreign: 0.25},
			{Worker: "http://p1", Role: "prefill", Keeps: 6000, Kept: 1, LegSeconds: math.NaN(), TokenSeconds: math.NaN()},
			{Worker: "http://d0", Role: "decode", Blocks: 90, Keeps: 6000, Kept: 1},
		}}
	})
	WatchTraces(reg, func() Traces { return Traces{Sent: 40, Dropped: 2, Failed: 1} })
	r := m.Route(http.MethodPost, "/v1/chat/completions")
	r.Arrived()
	r.Answered(502, "decode_request_failed", time.Second/2)
	w := m.Work("m", "chat", "vllm-nixl", true)
	w.Begun()
	w.Attempted()
	w.Prefilled(time.Unix(1000, 0), time.Second, "req-a")
	w.Begins(time.Unix(1000, 0), 2*time.Second, "req-a")
	w.HandedOff(time.Second / 2)
	w.Gap(20 * time.Millisecond)
	w.Decoded(3 * time.Second)
	m.Serve("m", "vllm-nixl")
	w.Sent("http://d0")
	w.Sent("http://gone")
	m.LegFailed("decode", false)
	m.KeyInHeader()
	m.Resent()
	m.Admission("default", Admitted)
	m.Discovered(3, 1, 4, 2*time.Millisecond)
	m.NotDiscovered(2)
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
	m.Departed("relay")
	m.KeysDropped(2)
	m.BootstrapFailed()
	m.HandOffEnded("vllm-nixl", HandOffMissing)
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
	return m, reg
}

func gathered(t *testing.T) prometheus.Gatherer {
	t.Helper()
	m, reg := traffic(t)
	return m.Gatherer(reg)
}

// TestExposition compares all that is exported with a file, so that a changed
// name or label shows in a review.
func TestExposition(t *testing.T) {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	m, reg := traffic(t)
	m.Handler(reg, nil).ServeHTTP(rec, req)
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

func TestBothPathsAreScraped(t *testing.T) {
	m, reg := traffic(t)
	h := m.Handler(reg, nil)
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
