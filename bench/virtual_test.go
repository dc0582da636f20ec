package bench

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"pdrouter/policy"
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

func TestExplore(t *testing.T) {
	for _, name := range []string{"conversation_trace.jsonl", "synthetic_trace.jsonl"} {
		reqs := trace(t, name)
		v := Virtual{Workers: 8, Speed: 1.5, Engine: DefaultEngine()}
		for _, name := range append(References(), append(policy.Names(), "cache_aware_at_once")...) {
			p, err := PolicyOf(name, policy.DefaultConfig(), v.Engine)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", v.Means(reqs, p, 3))
		}
	}
}

func TestExplore2(t *testing.T) {
	reqs := trace(t, "conversation_trace.jsonl")
	p, _ := PolicyOf("cache_aware", policy.DefaultConfig(), DefaultEngine())
	q, _ := PolicyOf("cache_aware_at_once", policy.DefaultConfig(), DefaultEngine())
	for _, p := range []Policy{p, q} {
		for _, v := range []Virtual{{}, {NoReports: true}, {NoUsage: true}, {NoReports: true, NoUsage: true}} {
			v.Workers, v.Speed, v.Engine = 8, 1.5, DefaultEngine()
			t.Logf("silent %t %t %+v", v.NoReports, v.NoUsage, v.Means(reqs, p, 3))
			v.Engine.KVTokens = 1_000_000
			t.Logf("1M silent %t %t %+v", v.NoReports, v.NoUsage, v.Means(reqs, p, 3))
		}
	}
}
