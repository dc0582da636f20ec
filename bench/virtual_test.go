package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/policy"
)

// The whole traces are not part of the repository.
var traces = flag.String("traces", "", "directory of the whole Mooncake traces, for the tests of the figures to reach")

// whole reads a whole trace, or skips the test.
func whole(t *testing.T, name string) []Request {
	t.Helper()
	if *traces == "" {
		t.Skip("no -traces DIR with the whole traces")
	}
	f, err := os.Open(filepath.Join(*traces, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reqs, _, err := ReadAny(f)
	if err != nil {
		t.Fatal(err)
	}
	return reqs
}

func policyOf(t *testing.T, name string) Policy {
	t.Helper()
	p, err := PolicyOf(name, policy.DefaultConfig(), DefaultEngine())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// published is the fleet of the published figures.
func published() Virtual { return Virtual{Workers: 8, Speed: 1.5, Engine: DefaultEngine()} }

// near reports whether got is want to within a share.
func near(got, want, share float64) bool { return got >= want*(1-share) && got <= want*(1+share) }

// TestReplayOfFiveMinutes has the figures of the part of the trace that comes
// with the package. They are our own: a change of them is to be looked at.
func TestReplayOfFiveMinutes(t *testing.T) {
	reqs, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		policy          string
		hit, mean, most float64 // hit ratio, mean TTFT, most imbalance
	}{
		{"ref_round_robin", 0.0596, 4.262, 1.2},
		{"ref_ttft_own2", 0.182, 1.439, 1.2},
		{"cache_aware_at_once", 0.187, 1.443, 1.2},
		{"cache_aware", 0.189, 1.318, 1.2},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			row := published().Means(reqs, policyOf(t, tt.policy), 3)
			if !near(row.HitRatio, tt.hit, 0.05) || !near(row.TTFTMean, tt.mean, 0.05) || row.Imbalance > tt.most || row.Requests != len(reqs) {
				t.Errorf("%+v, want a hit ratio of %v, a mean TTFT of %v s", row, tt.hit, tt.mean)
			}
		})
	}
}

// TestReplayIsDeterministic: the same seed gives the same, another one not.
func TestReplayIsDeterministic(t *testing.T) {
	reqs, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range policy.Names() {
		p, v := policyOf(t, name), published()
		first, again := v.Run(reqs, p.Make(0)), v.Run(reqs, p.Make(0))
		if !slices.Equal(first, again) {
			t.Errorf("%s: the same seed gave something else", name)
		}
		for i, e := range first {
			if e.TTFT <= 0 || e.Blocks == 0 || e.Found > e.Blocks {
				t.Fatalf("%s: request %d came to %+v", name, i+1, e)
			}
		}
	}
}

// TestReplayReproducesPublishedFigures is what says that the model is right:
// policies as others have them come to the figures that were published.
func TestReplayReproducesPublishedFigures(t *testing.T) {
	conversation, synthetic := whole(t, "conversation_trace.jsonl"), whole(t, "synthetic_trace.jsonl")
	for _, tt := range []struct {
		policy             string
		hit, mean          float64
		synthHit, synthTTF float64
		share              float64
	}{
		{"ref_round_robin", 0.113, 3.46, 0.194, 12.1, 0.02},
		{"ref_sglang", 0.330, 2.22, 0.640, 0.78, 0.03},
		{"ref_llm_d", 0.345, 1.13, 0.640, 0.74, 0.03},
		{"ref_ttft", 0.306, 1.06, 0.619, 0.71, 0.02},
		{"ref_ttft_own2", 0.328, 1.04, 0.633, 0.72, 0.02},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			c, s := published().Means(conversation, policyOf(t, tt.policy), 3), published().Means(synthetic, policyOf(t, tt.policy), 3)
			if !near(c.HitRatio, tt.hit, tt.share) || !near(c.TTFTMean, tt.mean, tt.share) {
				t.Errorf("%+v, want %v, %v s", c, tt.hit, tt.mean)
			}
			if !near(s.HitRatio, tt.synthHit, tt.share) || !near(s.TTFTMean, tt.synthTTF, tt.share) {
				t.Errorf("%+v, want %v, %v s", s, tt.synthHit, tt.synthTTF)
			}
		})
	}
}

// A goal counts as reached within 2 %. 0: there is none.
type goal struct{ hit, mean, imbalance float64 }

func (g goal) missed(r Row) bool {
	const within = 0.02
	return r.HitRatio < g.hit*(1-within) || g.mean > 0 && r.TTFTMean > g.mean*(1+within) || g.imbalance > 0 && r.Imbalance > g.imbalance*(1+within)
}

func TestReplayReachesItsGoals(t *testing.T) {
	conversation, synthetic := whole(t, "conversation_trace.jsonl"), whole(t, "synthetic_trace.jsonl")
	small, few := published(), published()
	small.Engine.KVTokens, few.Workers, few.Speed = 1_000_000, 4, 0.75
	for _, tt := range []struct {
		name, policy string
		fleet        Virtual
		conv, synth  goal
	}{
		{"at once", "cache_aware_at_once", published(), goal{0.33, 1.05, 1.05}, goal{0.63, 0.72, 0}},
		{"bound late", "cache_aware", published(), goal{0.335, 0.95, 1.05}, goal{0.625, 0.72, 0}},
		{"at once, small caches", "cache_aware_at_once", small, goal{mean: 1.22}, goal{mean: 0.98}},
		{"bound late, small caches", "cache_aware", small, goal{mean: 1.22}, goal{mean: 0.98}},
		{"at once, few workers", "cache_aware_at_once", few, goal{mean: 1.68}, goal{mean: 0.92}},
		{"bound late, few workers", "cache_aware", few, goal{mean: 1.68}, goal{mean: 0.92}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, part := range []struct {
				reqs []Request
				goal goal
			}{{conversation, tt.conv}, {synthetic, tt.synth}} {
				row := tt.fleet.Means(part.reqs, policyOf(t, tt.policy), 3)
				t.Logf("%+v", row)
				if part.goal.missed(row) {
					t.Errorf("%+v, want %+v", row, part.goal)
				}
			}
		})
	}
}

// TestReplayHoldsNobodyTooLong: binding late makes the longest TTFT no longer.
func TestReplayHoldsNobodyTooLong(t *testing.T) {
	reqs := whole(t, "conversation_trace.jsonl")
	const seeds = 8 // the maximum is of one request
	once, late := published().Means(reqs, policyOf(t, "cache_aware_at_once"), seeds), published().Means(reqs, policyOf(t, "cache_aware"), seeds)
	t.Logf("%+v", late)
	t.Logf("%+v", once)
	if late.TTFTMax > 1.02*once.TTFTMax {
		t.Errorf("the longest TTFT is %v s, and %v s at once", late.TTFTMax, once.TTFTMax)
	}
}

// TestReplayIsRobust: what engines do not tell, or tell late, is learnt.
func TestReplayIsRobust(t *testing.T) {
	reqs := whole(t, "conversation_trace.jsonl")
	for _, name := range []string{"cache_aware_at_once", "cache_aware"} {
		base := published().Means(reqs, policyOf(t, name), 3)
		noisy := DefaultEngine()
		noisy.Noise = 0.3
		for _, v := range []Virtual{{Engine: noisy}, {Stale: 5 * time.Second}, {NoReports: true}, {NoUsage: true}, {NoReports: true, NoUsage: true}} {
			v.Workers, v.Speed = 8, 1.5
			if v.Engine.Noise == 0 {
				v.Engine = DefaultEngine()
			}
			row := v.Means(reqs, policyOf(t, name), 3)
			t.Logf("noise %v, %v old, no reports %t, no usage %t: %+v", v.Engine.Noise, v.Stale, v.NoReports, v.NoUsage, row)
			if row.TTFTMean > 1.1*base.TTFTMean || row.HitRatio < 0.95*base.HitRatio {
				t.Errorf("%+v, want no worse by a tenth than %+v", row, base)
			}
		}
	}
}

// TestReplayRecovers: two minutes of the trace after something happened to a
// worker, the hit ratio is near what it would be without, and the load even.
func TestReplayRecovers(t *testing.T) {
	reqs := whole(t, "conversation_trace.jsonl")
	v := published()
	half := time.Duration(float64(reqs[len(reqs)-1].At()) / v.Speed / 2)
	from := half + time.Duration(float64(2*time.Minute)/v.Speed)
	after := func(ends []Ended) Row {
		return RowOf("", slices.DeleteFunc(slices.Clone(ends), func(e Ended) bool { return e.At < from || e.At > from+5*time.Minute }))
	}
	for _, name := range []string{"cache_aware_at_once", "cache_aware"} {
		calm := after(v.Run(reqs, policyOf(t, name).Make(0)))
		for kind, what := range []string{"dies", "is added", "is flushed"} {
			t.Run(fmt.Sprintf("%s when a worker %s", name, what), func(t *testing.T) {
				v := v
				v.Upsets = []Upset{{At: half, Kind: UpsetKind(kind), Seat: 3}}
				row := after(v.Run(reqs, policyOf(t, name).Make(0)))
				t.Logf("%+v", row)
				if row.HitRatio < 0.9*calm.HitRatio || row.Imbalance > 1.3 {
					t.Errorf("%+v, want near %+v", row, calm)
				}
			})
		}
	}
}

// TestUpsetsLoseNothing: what a dead worker had is answered by others, and one
// that is added gets its part.
func TestUpsetsLoseNothing(t *testing.T) {
	reqs, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	v := published()
	v.Upsets = []Upset{{At: time.Minute, Kind: Die, Seat: 2}, {At: time.Minute, Kind: Add}, {At: 90 * time.Second, Kind: Flush, Seat: 4}}
	for _, name := range []string{"cache_aware_at_once", "cache_aware", "prefix_hash", "ref_ttft"} {
		late := map[int]int{}
		for i, e := range v.Run(reqs, policyOf(t, name).Make(1)) {
			if e.TTFT <= 0 {
				t.Fatalf("%s: request %d was lost", name, i+1)
			}
			if e.At > time.Minute {
				late[e.Seat]++
			}
		}
		if late[2] != 0 || late[8] < 20 {
			t.Errorf("%s: after a minute workers got %v requests, want none for 2 and some for 8", name, late)
		}
	}
}

func TestPolicyOfNamesWhatIsUnknown(t *testing.T) {
	if _, err := PolicyOf("best", policy.DefaultConfig(), DefaultEngine()); err == nil || !strings.Contains(err.Error(), `"best"`) {
		t.Errorf("PolicyOf = %v", err)
	}
}
