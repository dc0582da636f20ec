package workers

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

func explained(x *Explanation) map[string]string {
	all := map[string]string{}
	for _, c := range x.Candidates {
		all[c.Worker.ID] = c.LeftOut
	}
	return all
}

// Who was left out before the Chooser was asked is explained, in each choice
// anew.
func TestLeftOutIsExplained(t *testing.T) {
	r := fleet(t, 3, firstFit{t})
	now := time.Now()
	r.Bar(worker(t, r, "prefill-0"), Breaking, now.Add(time.Minute), "")
	r.Bar(worker(t, r, "decode-2"), Stalled, Forever(), "")
	x := &Explanation{Reason: "of an earlier choice", Candidates: []Candidate{{Worker: worker(t, r, "prefill-2"), LeftOut: "stale"}}}
	need := Need{Explain: x, Avoid: []Avoid{{Decode: worker(t, r, "decode-0")}}}
	var pair Pair
	if err := r.Lease(t.Context(), need, &pair); err != nil {
		t.Fatal(err)
	}
	defer drop(&pair)
	want := map[string]string{"prefill-0": "breaker", "decode-0": LeftAvoided, "decode-2": "stalled"}
	if got := explained(x); fmt.Sprint(got) != fmt.Sprint(want) || x.Reason != "" {
		t.Errorf("left out are %v (%q), want %v", got, x.Reason, want)
	}
}

// A choice that the Judge refuses is none: only the one that was granted is
// explained.
func TestOnlyTheGrantedChoiceIsExplained(t *testing.T) {
	r := fleet(t, 2, firstFit{t})
	first := worker(t, r, "prefill-0")
	until := time.Now().Add(time.Minute)
	r.Bar(worker(t, r, "decode-1"), Breaking, until, "")
	r.SetJudge(&picky{permits: func(prefill, _ *Worker) bool {
		if prefill == first {
			r.Bar(first, Probing, until, "")
		}
		return prefill != first
	}})
	x := &Explanation{}
	var pair Pair
	if err := r.Lease(t.Context(), Need{Explain: x}, &pair); err != nil {
		t.Fatal(err)
	}
	defer drop(&pair)
	if got := explained(x); len(x.Candidates) != 2 || got["prefill-0"] != "probes" || got["decode-1"] != "breaker" {
		t.Errorf("the explanation is %v, want that of the second choice", x.Candidates)
	}
}

func TestAnExplanationIsBounded(t *testing.T) {
	r := fleet(t, 64, firstFit{t})
	x := &Explanation{}
	costs := make([]float64, 64)
	for i := range costs {
		costs[i] = float64((i*37 + 11) % 64)
	}
	add := func() {
		x.Reset()
		for i := range 64 {
			c := Candidate{Worker: r.all[2*i], Cost: costs[i]} // prefill
			if i%8 == 0 {
				c.Cost, c.LeftOut = math.NaN(), LeftNoRoom
			}
			x.Add(&c)
			d := Candidate{Worker: r.all[2*i+1], Cost: math.NaN()}
			x.Add(&d)
		}
		chosen := Candidate{Worker: r.all[2*63], Cost: costs[63]}
		x.Keep(&chosen)
	}
	add()
	if len(x.Candidates) != MostCandidates || x.Unlisted != 128-MostCandidates {
		t.Fatalf("%d are listed and %d not", len(x.Candidates), x.Unlisted)
	}
	var got []float64
	kept := false
	for _, c := range x.Candidates {
		if c.Worker.Role == Prefill {
			got = append(got, c.Cost)
			kept = kept || c.Worker == r.all[2*63]
		}
	}
	slices.Sort(got)
	var want []float64
	for i, c := range costs {
		if i%8 != 0 {
			want = append(want, c)
		}
	}
	slices.Sort(want)
	if !kept || !slices.Equal(got[:7], want[:7]) {
		t.Errorf("listed are the costs %v, want %v and the chosen one", got, want[:7])
	}
	if n := testing.AllocsPerRun(50, add); n != 0 {
		t.Errorf("an explanation costs %v allocations", n)
	}
}
