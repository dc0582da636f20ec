package bench

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"pdrouter/policy"
	"pdrouter/workers"
)

var traces = flag.String("traces", "", "directory of the whole traces")

func trace(t *testing.T, name string) []Request {
	t.Helper()
	if *traces == "" {
		t.Skip("no -traces DIR with the whole traces")
	}
	f, err := os.Open(filepath.Join(*traces, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reqs, err := ReadTrace(f)
	if err != nil {
		t.Fatal(err)
	}
	return reqs
}

// atOnce hides that a policy is a Planner.
type atOnce struct {
	workers.Chooser
	workers.Learner
	workers.Looker
}

func TestExplore(t *testing.T) {
	for _, name := range []string{"conversation_trace.jsonl", "synthetic_trace.jsonl"} {
		reqs := trace(t, name)
		for _, v := range []Virtual{
			{Workers: 8, Speed: 1.5, Engine: DefaultEngine()},
			{Workers: 8, Speed: 1.5, Engine: Engine{1_000_000, DefaultEngine().PerPrompt, 10000}},
			{Workers: 4, Speed: .75, Engine: DefaultEngine()},
		} {
			for _, late := range []bool{true} {
				var rows []Row
				for seed := range 3 {
					v.Seed = uint64(seed)
					c := policy.NewCacheAware(policy.DefaultConfig())
					var ch workers.Chooser = c
					if !late {
						ch = atOnce{c, c, c}
					}
					rows = append(rows, v.Run(reqs, ch).Row("x"))
				}
				t.Logf("%s %d %d late %t %+v", name[:4], v.Workers, v.Engine.KVTokens, late, Mean(rows))
			}
		}
	}
}
