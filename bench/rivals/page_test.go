package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
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
	title := tracks()[0].title
	return &results{
		When: map[string]string{partFaults: "today"}, Commands: map[string]string{partFaults: "make rivals"}, Loads: map[string]string{partFaults: "0.25"},
		Overhead: []measured{{Dialect: "sglang", Results: figures, After: map[string]float64{"router": 30, "smg": 300}}},
		Faults:   []verdict{v},
		Routing: []routed{
			{Track: title, Contender: ours, Dialect: sim.SGLang, Hit: spread{0.4, 0.3, 0.5}, Mean: spread{1, 1, 1}, P99: spread{3, 3, 3}, Rounds: 3},
			{Track: title, Contender: "smg", Dialect: sim.SGLang, Hit: spread{0.3, 0.3, 0.3}, Mean: spread{2, 2, 2}, P99: spread{2, 2, 2}, Rounds: 3},
			{Track: title, Contender: ours + " (NIXL)", Dialect: sim.VLLMNixl, Hit: spread{0.4, 0.4, 0.4}, Rounds: 1},
			{Track: title, Contender: "vllm-router", Dialect: sim.VLLMNixl, Hit: spread{0.5, 0.5, 0.5}, Rounds: 1},
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
		"| faults | today | 0.25 | `make rivals` |",
		"| mean TTFT: two prefill engines, 0.78 of what they can compute | below smg's 2.000 s | 1.000 s | reached |",
		"| pdrouter | 0.400 (0.300 to 0.500) | 1.000 | 3.00 |",
		"0.78 of what they can compute, hit ratio: 0.400, vllm-router 0.500.",
		"- 1 KB, JSON, p99 of TTFT: 2.00 ms, smg 1.50 ms.",
		"0.78 of what they can compute, p99 of TTFT: 3.00 s, smg 2.00 s.",
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
	if err != nil || len(got.Routing) != 4 || got.Overhead[0].After["smg"] != 300 || !got.Faults[0].Outcomes[ours].Held {
		t.Errorf("load = %+v, %v, want what was saved", got, err)
	}
	none, err := load(path + ".none")
	if err != nil || none.When == nil {
		t.Errorf("load of no file = %+v, %v, want nothing", none, err)
	}
}

func TestSumIsTheMedianWithItsRange(t *testing.T) {
	c := contenders()[0]
	got := tracks()[0].sum(c, []lap{{hit: 0.3, failed: 1, requests: 5}, {hit: 0.1, requests: 5}, {hit: 0.2, requests: 5}})
	if got.Hit != (spread{0.2, 0.1, 0.3}) || got.Failed != 1 || got.Requests != 15 || got.Rounds != 3 || !got.of(ours) {
		t.Errorf("sum = %+v, want ours with a hit ratio of 0.2, 0.1 to 0.3, 15 requests and 1 failure", got)
	}
}

func TestTurnsOfTheTrace(t *testing.T) {
	first, later := tracks()[0], tracks()[1]
	if n := len(first.contenders(0)); n != len(contenders()) {
		t.Errorf("%d routers in the first round of the first track, want all", n)
	}
	for _, got := range [][]contender{first.contenders(1), later.contenders(1)} {
		if len(got) != 2 || got[0].Name != "smg" || got[1].Name != ours {
			t.Errorf("contenders of the second round = %v, want smg, then ours", got)
		}
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

func TestBriefIsBrief(t *testing.T) {
	o, err := parseOptions([]string{"-brief"})
	if err != nil || o.rounds != 1 || o.slice > time.Minute {
		t.Errorf("parseOptions = %+v, %v, want one round and a minute of the trace", o, err)
	}
}
