package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// someResults has a goal that is reached and some that are missed.
func someResults() *results {
	figures := []figure{
		{Workload: "1kb", System: "router", CPU: 100, TTFT: [2]float64{1, 2}},
		{Workload: "1kb", System: "smg", CPU: 400, TTFT: [2]float64{1, 1.5}},
		{Workload: "stream", System: "router", CPU: 300},
		{Workload: "stream", System: "smg", CPU: 1000},
		{Workload: "steady", System: "router", CPU: 1, TTFT: [2]float64{1, 2}},
		{Workload: "steady", System: "smg", CPU: 1, TTFT: [2]float64{1, 5}},
		{Workload: "steady", System: "direct", TTFT: [2]float64{1, 1}},
	}
	v := verdict{Title: "engines fail", Held: "all well", Outcomes: map[string]outcome{ours: {true, "1 of 1"}, "smg": {false, "0 of 1"}}}
	return &results{
		When: map[string]string{partFaults: "today"}, Commands: map[string]string{partFaults: "make rivals"},
		Overhead: []measured{{Dialect: "sglang", Results: figures, After: map[string]float64{"router": 30, "smg": 300}}},
		Faults:   []verdict{v},
		Routing: []routed{
			{Contender: ours, Hit: 0.4, Mean: 1, P99: 3, Imbalance: 1.1, Rounds: 1},
			{Contender: "smg", Hit: 0.3, Mean: 2, P99: 2, Imbalance: 1.2, Rounds: 1},
		},
	}
}

func TestPageSaysWhatIsReachedAndWhereOursLoses(t *testing.T) {
	t.Chdir("../..") // the pins are read from the root
	path := filepath.Join(t.TempDir(), "page.md")
	if err := writePage(path, someResults()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"smg 1.13.0, sglang-router 0.3.2, vllm-router 0.1.17",
		"| 1 KB, JSON | at most 0.33 CPU of smg | 0.25 | reached |",
		"| stream of 256 chunks | at most 0.21 CPU of smg | 0.30 | **missed** |",
		"| RSS after all of it | at most 0.15 of smg | 0.10 | reached |",
		"| p99 of TTFT added, 200 requests a second | at most 0.5 of smg | 1.00 ms, smg 4.00 ms | reached |",
		"| faults of the list held | all; smg held 0 | 1 of 1 | reached |",
		"| engines fail | all well | held: 1 of 1 | **not held**: 0 of 1 |",
		"| mean TTFT on the trace | below smg's 2.000 s | 1.000 s | reached |",
		"- 1 KB, JSON, p99 of TTFT: 2.00 ms, smg 1.50 ms.",
		"- p99 of TTFT on the trace: 3.000 s, smg 2.000 s.",
		"- Goal missed: stream of 256 chunks",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

func TestResultsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	if err := someResults().save(path); err != nil {
		t.Fatal(err)
	}
	got, err := load(path)
	if err != nil || len(got.Routing) != 2 || got.Overhead[0].After["smg"] != 300 || !got.Faults[0].Outcomes[ours].Held {
		t.Errorf("load = %+v, %v, want what was saved", got, err)
	}
	none, err := load(path + ".none")
	if err != nil || none.When == nil {
		t.Errorf("load of no file = %+v, %v, want nothing", none, err)
	}
}

func TestMiddleIsTheMedian(t *testing.T) {
	got := middle(ours, []routed{{Hit: 0.3, Failed: 1, Requests: 5}, {Hit: 0.1, Requests: 5}, {Hit: 0.2, Requests: 5}})
	if got.Hit != 0.2 || got.Failed != 1 || got.Requests != 15 || got.Rounds != 3 {
		t.Errorf("middle = %+v, want a hit ratio of 0.2, 15 requests and 1 failure", got)
	}
}

func TestOptionsNameThePartAtFault(t *testing.T) {
	for args, want := range map[string]string{
		"-only cost": `-only "cost"`, "-rounds 0": "-rounds", "more": `unexpected argument "more"`,
	} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseOptions(%s) = %v, want %s in it", args, err, want)
		}
	}
}
