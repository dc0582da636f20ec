package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pdrouter/bench"
	"pdrouter/keys"
	"pdrouter/policy"
	"pdrouter/sim"
)

// replays runs pdrouter replay, and returns what it prints and its error.
func replays(ctx context.Context, stdin string, args ...string) (out, complaints string, err error) {
	cmd := newRootCommand(append([]string{"replay"}, args...)) //nolint:contextcheck // a command gets it when it is executed
	var o, e bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

// rowsOf decodes what --json prints: a line for each policy.
func rowsOf(t *testing.T, out string) (rows []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		rows = append(rows, row)
	}
	return rows
}

// The figures that --json prints are those of the virtual clock, in the order
// in which policies were named; the same again for the same seeds.
func TestReplayPrintsALinePerPolicy(t *testing.T) {
	args := []string{"--policy", "round_robin,cache_aware", "--policy", "ref_llm_d", "--workers", "4", "--kv-tokens", "500000", "--speed", "0.5", "--duration", "1m", "--seeds", "2", "--json"}
	out, complaints, err := replays(t.Context(), "", args...)
	if err != nil || complaints != "" {
		t.Fatalf("%v, %q", err, complaints)
	}
	reqs, err := bench.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	reqs = bench.Before(reqs, time.Minute)
	v := bench.Virtual{Workers: 4, Speed: 0.5, Engine: bench.DefaultEngine()}
	v.Engine.KVTokens = 500_000
	var want strings.Builder
	for _, name := range []string{"round_robin", "cache_aware", "ref_llm_d"} {
		p, err := bench.PolicyOf(name, policy.DefaultConfig(), v.Engine)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&want).Encode(v.Means(reqs, p, 2)); err != nil {
			t.Fatal(err)
		}
	}
	if out != want.String() {
		t.Errorf("printed\n%s, want\n%s", out, want.String())
	}
	for _, key := range []string{"policy", "hit_ratio", "ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "imbalance", "requests"} {
		for _, row := range rowsOf(t, out) {
			if row[key] == nil {
				t.Errorf("%v has no %s", row, key)
			}
		}
	}
}

func TestReplayFlagsReachTheModel(t *testing.T) {
	meanOf := func(policy string, args ...string) float64 {
		t.Helper()
		out, _, err := replays(t.Context(), "", append([]string{"--duration", "1m", "--policy", policy, "--seeds", "1", "--json"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return rowsOf(t, out)[0]["ttft_mean_s"].(float64)
	}
	usual := meanOf("cache_aware")
	for _, args := range [][]string{
		{"--workers", "7"},
		{"--kv-tokens", "20000"},
		{"--speed", "1.4"},
		{"--hold", "off"},
		{"--hold", "100ms"},
		{"--duration", "50s"},
		{"--requests", "100"},
	} {
		if got := meanOf("cache_aware", args...); got == usual {
			t.Errorf("%v changes nothing", args)
		}
	}
	if at, want := meanOf("cache_aware", "--hold", "off"), meanOf(bench.AtOnce); at != want {
		t.Errorf("without a hold the mean TTFT is %v, dispatched at once %v", at, want)
	}
}

func TestReplayTable(t *testing.T) {
	out, complaints, err := replays(t.Context(), "", "--seeds", "1")
	if err != nil || complaints != "" {
		t.Fatalf("%v, %q", err, complaints)
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if strings.ContainsAny(out, "\x1b\r") {
		t.Errorf("there are control characters in %q", out)
	}
	at := -1
	for _, want := range []string{"918 requests in 4m57s", "pdrouter's policies", "\ncache_aware ", "\ncache_aware_at_once ", "others' policies", "\nref_sglang ", "\nref_llm_d "} {
		i := strings.Index(out, want)
		if i <= at {
			t.Errorf("%q does not stand where it should in\n%s", want, out)
		}
		at = i
	}
	if !strings.Contains(out, "█") {
		t.Error("there are no bars")
	}
}

// All forms are told apart, and come from standard input, too.
func TestReplayReadsAllForms(t *testing.T) {
	for form, text := range map[string]string{
		"mooncake": `{"timestamp": 0, "input_length": 513, "output_length": 3, "hash_ids": [7, 9]}` + "\n" + `{"timestamp": 900, "input_length": 512, "output_length": 3, "hash_ids": [7]}`,
		"alibaba":  `{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 17, "output_length": 3, "type": "text", "turn": 1, "hash_ids": [7, 9]}` + "\n" + `{"chat_id": 2, "timestamp": 1.5, "input_length": 16, "output_length": 3, "hash_ids": [7]}`,
		"azure":    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,600,10\n2023-11-16 18:17:05.0319600,3,0\n",
		"sharegpt": `[{"id":"a","conversations":[{"from":"human","value":"hello there, how are you?"},{"from":"gpt","value":"well"},{"from":"human","value":"and now"}]}]`,
	} {
		out, _, err := replays(t.Context(), text, "--trace", "-", "--policy", "round_robin", "--json")
		if err != nil || rowsOf(t, out)[0]["requests"] != 2.0 {
			t.Errorf("%s: %v, %s, want two requests", form, err, out)
		}
	}
}

func TestReplayEndsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, _, err := replays(ctx, "", "--json"); err == nil || err.Error() != "replay: interrupted" || out != "" {
		t.Errorf("%v, %q", err, out)
	}
}

// traceOf returns a trace of n requests, one in a tenth of a second, whose
// prompts begin alike by twos.
func traceOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"timestamp": %d, "input_length": 1100, "output_length": 2, "hash_ids": [%d, %d, %d]}`+"\n", 100*i, i/2, 100+i/2, 1000+i)
	}
	return b.String()
}

// Over HTTP the row is that of what clients saw: half of the prompts have two
// of their blocks in a cache, if they go where these are.
func TestReplayLive(t *testing.T) {
	const n = 24
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, engine: func(c *sim.Config) { c.BlockSize = 256 }})
	began := time.Now()
	out, complaints, err := replays(t.Context(), traceOf(n), "--trace", "-", "--live", f.base+"/", "--speed", "4", "--json", "--workers", "3")
	if err != nil || complaints != "warning: --workers is not looked at: with --live the router that runs has its own workers and policy\n" {
		t.Fatalf("%v, %q", err, complaints)
	}
	if took := time.Since(began); took < 100*(n-1)*time.Millisecond/4 {
		t.Errorf("it took %v: requests were not paced", took)
	}
	row := rowsOf(t, out)[0]
	if row["policy"] != "live" || row["requests"] != float64(n) || row["failed"] != 0.0 || row["imbalance"] != nil {
		t.Errorf("row = %v", row)
	}
	for _, key := range []string{"ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "ttft_max_s"} {
		if s, ok := row[key].(float64); !ok || s <= 0 || s > 10 {
			t.Errorf("%s = %v", key, row[key])
		}
	}
	var queried, hit uint64
	for _, e := range f.prefill {
		st := e.Stats()
		queried, hit = queried+st.QueriedTokens, hit+st.HitTokens
	}
	if got := row["hit_ratio"]; got != float64(hit)/float64(queried) || queried != n*1100 {
		t.Errorf("hit ratio = %v; the engines found %d of %d", got, hit, queried)
	}
}

func TestReplayLiveDoesNotKnowWhatIsNotSaid(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, engine: func(c *sim.Config) { c.NoCacheReport = true }})
	out, _, err := replays(t.Context(), traceOf(4), "--trace", "-", "--live", f.base, "--speed", "100", "--json")
	if row := rowsOf(t, out)[0]; err != nil || row["hit_ratio"] != nil || row["ttft_mean_s"] == nil {
		t.Errorf("%v, %v: want no hit ratio", err, row)
	}
	out, _, err = replays(t.Context(), traceOf(4), "--trace", "-", "--live", f.base, "--speed", "100")
	if err != nil || !strings.Contains(out, "\nlive                     -") || !strings.Contains(out, "the hit ratio is not known") || !strings.Contains(out, "4 requests ended") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What vLLM's decode calls cached is what prefill handed over.
func TestReplayLiveDoesNotTakeTheHandOffForACache(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.VLLMNixl})
	out, _, err := replays(t.Context(), traceOf(4), "--trace", "-", "--live", f.base, "--speed", "100", "--json")
	if row := rowsOf(t, out)[0]; err != nil || row["hit_ratio"] != nil || row["requests"] != 4.0 {
		t.Errorf("%v, %v: want no hit ratio", err, row)
	}
	out, _, err = replays(t.Context(), traceOf(4), "--trace", "-", "--live", f.base, "--speed", "100")
	if err != nil || !strings.Contains(out, "counts what prefill has handed over") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestReplayLiveTellsOfFailures(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.Router.APIKeys = keys.Of("secret") }})
	out, complaints, err := replays(t.Context(), traceOf(3), "--trace", "-", "--live", f.base, "--model", "sim-model", "--speed", "100", "--json")
	if err == nil || err.Error() != "replay: all 3 requests failed" || strings.Count(complaints, "status 401") != 3 {
		t.Errorf("without a key: %v, %q", err, complaints)
	}
	if row := rowsOf(t, out)[0]; row["requests"] != 3.0 || row["failed"] != 3.0 || row["hit_ratio"] != nil || row["ttft_p50_s"] != nil {
		t.Errorf("row = %v, want nothing known but three failures", row)
	}
	out, complaints, err = replays(t.Context(), traceOf(3), "--trace", "-", "--live", f.base, "--api-key", "secret", "--speed", "100", "--json", "--requests", "2")
	if row := rowsOf(t, out)[0]; err != nil || complaints != "" || row["requests"] != 2.0 || row["failed"] != 0.0 {
		t.Errorf("with the key: %v, %q, %v", err, complaints, row)
	}
}

// Ctrl-C ends it, and what there is is printed.
func TestReplayLiveIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 3 {
			cancel()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `data: {"choices":[{"text":"x"}],"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":25}}}`+"\n\ndata: [DONE]\n\n")
	}))
	defer srv.Close()
	out, _, err := replays(ctx, traceOf(5), "--trace", "-", "--live", srv.URL, "--model", "m", "--max-open", "1", "--speed", "100", "--json")
	if err == nil || err.Error() != "replay: interrupted when 2 of 5 requests had ended; 1 that were open say nothing" {
		t.Errorf("error = %v", err)
	}
	if row := rowsOf(t, out)[0]; row["requests"] != 2.0 || row["hit_ratio"] != 0.25 {
		t.Errorf("row = %v", row)
	}
}

func TestFirstModel(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		status       int
		want, err    string
	}{
		{"the first counts", `{"data":[{"id":"a"},{"id":"b"}]}`, 200, "a", ""},
		{"there may be none", `{"data":[]}`, 200, "", "names no model"},
		{"what is no list is said to be none", `<html>`, 200, "", "not a list of models"},
		{"a status is told", `{"error":"no"}`, 403, "", `status 403: {"error":"no"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer k" {
					t.Errorf("asked for %s with %q", r.URL, r.Header)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer srv.Close()
			o := liveOrder{url: srv.URL, key: "k", maxOpen: 1}
			c := o.client()
			defer c.HTTP.CloseIdleConnections()
			got, err := firstModel(t.Context(), c)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("firstModel = %q, %v, want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

// What is replayed by default is all of ours but what chooses nothing, and is
// known.
func TestUsualPolicies(t *testing.T) {
	usual := usualPolicies()
	for _, name := range usual {
		if !slices.Contains(bench.PolicyNames(), name) {
			t.Errorf("%s is not known", name)
		}
	}
	for _, name := range policy.Names() {
		if !slices.Contains(usual, name) && name != "manual" && name != "passthrough" {
			t.Errorf("%s is left out", name)
		}
	}
}
