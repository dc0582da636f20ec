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
		{AtOnce, 0.187, 1.443, 1.2},
		{"cache_aware", 0.189, 1.318, 1.2},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			row := Published().Means(reqs, policyOf(t, tt.policy), 3)
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
		p, v := policyOf(t, name), Published()
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

// TestReplayReachesItsGoals also says that the model is right: policies as
// others have them come to the figures that were published.
func TestReplayReachesItsGoals(t *testing.T) {
	conversation, synthetic := whole(t, "conversation_trace.jsonl"), whole(t, "synthetic_trace.jsonl")
	for _, tt := range Cases() {
		t.Run(tt.Title, func(t *testing.T) {
			for _, part := range []struct {
				reqs []Request
				goal Goal
			}{{conversation, tt.Conversation}, {synthetic, tt.Synthetic}} {
				row := tt.Fleet.Means(part.reqs, policyOf(t, tt.Policy), 3)
				t.Logf("%+v", row)
				if missed := part.goal.Missed(row); len(missed) > 0 {
					t.Errorf("%v: %+v, want %+v", missed, row, part.goal)
				}
			}
		})
	}
}

func TestGoalMissed(t *testing.T) {
	goal := aim(0.5, 1, 1.1)
	published := known(0.5, 1, 0, 0.03)
	for _, tt := range []struct {
		name string
		goal Goal
		row  Row
		want []string
	}{
		{"a goal may be missed by 2 %", goal, Row{HitRatio: 0.491, TTFTMean: 1.019, Imbalance: 1.121}, nil},
		{"and not by more", goal, Row{HitRatio: 0.489, TTFTMean: 1.021, Imbalance: 1.123}, []string{"hit", "TTFT", "imbalance"}},
		{"what is better is reached", goal, Row{HitRatio: 0.9, TTFTMean: 0.1, Imbalance: 1}, nil},
		{"what was published is to be met from either side", published, Row{HitRatio: 0.52, TTFTMean: 0.96, Imbalance: 9}, []string{"hit", "TTFT"}},
		{"and nearly", published, Row{HitRatio: 0.51, TTFTMean: 0.98}, nil},
	} {
		if got := tt.goal.Missed(tt.row); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Missed = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestReplayHoldsNobodyTooLong: binding late makes the longest TTFT no longer.
func TestReplayHoldsNobodyTooLong(t *testing.T) {
	reqs := whole(t, "conversation_trace.jsonl")
	const seeds = 8 // the maximum is of one request
	once, late := Published().Means(reqs, policyOf(t, AtOnce), seeds), Published().Means(reqs, policyOf(t, "cache_aware"), seeds)
	t.Logf("%+v", late)
	t.Logf("%+v", once)
	if late.TTFTMax > 1.02*once.TTFTMax {
		t.Errorf("the longest TTFT is %v s, and %v s at once", late.TTFTMax, once.TTFTMax)
	}
}

// TestReplayIsRobust: what engines do not tell, or tell late, is learnt.
func TestReplayIsRobust(t *testing.T) {
	reqs := whole(t, "conversation_trace.jsonl")
	for _, name := range []string{AtOnce, "cache_aware"} {
		base := Published().Means(reqs, policyOf(t, name), 3)
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
	for _, name := range []string{AtOnce, "cache_aware"} {
		calm := Published().Recovery(reqs, policyOf(t, name), 3)
		for kind, what := range []string{"dies", "is added", "is flushed"} {
			t.Run(fmt.Sprintf("%s when a worker %s", name, what), func(t *testing.T) {
				row := Published().Recovery(reqs, policyOf(t, name), 3, UpsetKind(kind))
				t.Logf("%+v", row)
				if missed := RecoveryGoal(calm).Missed(row); len(missed) > 0 {
					t.Errorf("%v: %+v, want near %+v", missed, row, calm)
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
	v := Published()
	v.Upsets = []Upset{{At: time.Minute, Kind: Die, Seat: 2}, {At: time.Minute, Kind: Add}, {At: 90 * time.Second, Kind: Flush, Seat: 4}}
	for _, name := range []string{AtOnce, "cache_aware", "prefix_hash", "ref_ttft"} {
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
