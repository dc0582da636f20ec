package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"pdrouter/admin"
)

// golden compares a text with a file of testdata/seen.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "seen", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not as it was; run with -update and look at the change:\n%s", path, got)
	}
}

// candidatesSeen are those of two prefill and two decode workers, as cache_aware sees them.
func candidatesSeen() []admin.CandidateInfo {
	return []admin.CandidateInfo{
		{Worker: "prefill-0", Role: "prefill", InFlight: 1, Blocks: new(0), Wait: new(0.5), Work: new(0.42), Cost: new(1.13)},
		{Worker: "prefill-1", Role: "prefill", InFlight: 9, LeftOut: new("breaker")},
		{Worker: "prefill-2", Role: "prefill", Chosen: true, Blocks: new(11), Wait: new(0.0), Work: new(0.12), Cost: new(0.18)},
		{Worker: "decode-0", Role: "decode", InFlight: 7, Blocks: new(0), Cost: new(1.21)},
		{Worker: "decode-1", Role: "decode", InFlight: 4, Chosen: true, Blocks: new(12), Cost: new(0.66)},
	}
}

// answeredInTwo is a request that was answered by its second attempt.
func answeredInTwo() *admin.RequestInfo {
	first := admin.AttemptInfo{
		PairInfo: admin.PairInfo{Prefill: "prefill-1", Decode: "decode-1"}, Room: new("7487490656176250776"), Reserved: new(6644.0),
		Leased: 0.0003, Ended: new(0.2503), Leg: "prefill", Code: "prefill_request_failed",
		Reason: "prefill leg: 502 prefill_request_failed: read head: read tcp 127.0.0.1:38500->127.0.0.1:24001: read: connection reset by peer",
	}
	last := admin.AttemptInfo{
		PairInfo: admin.PairInfo{Prefill: "prefill-2", Decode: "decode-1"}, Room: new("2831350652913450069"), Reserved: new(6644.0),
		Leased: 0.301, Prefilled: new(0.433), Sent: new(0.301), First: new(0.461), Ended: new(3.42),
		Choice: admin.ChoiceInfo{
			Waited: 0.0001, Blocks: new(12), BlockBytes: new(2048), Candidates: candidatesSeen(), Unlisted: 3,
			Prefill: admin.RoleChoice{Reason: "least cost: wait and weighted work", Unit: new("seconds")},
			Decode:  admin.RoleChoice{Reason: "least load, KV use and blocks to pull", Unit: new("mean loads")},
		},
	}
	return &admin.RequestInfo{
		ID: "req-7LMAQ5ETCAG4T3KJ2JXB5PZQ", Number: 17, Phase: "relay", Started: time.Unix(1_790_000_000, 123e6), Age: 3.42,
		Model: "sim-model", Endpoint: "chat", Dialect: "sglang", Class: "default", Streaming: true, BodyBytes: 24801, PromptBytes: 24576,
		Pair: &last.PairInfo, Room: last.Room, Reserved: last.Reserved,
		Phases: []admin.PhaseInfo{
			{Phase: "accept", At: 0, Seconds: 0.0002},
			{Phase: "admit", At: 0.0002, Seconds: 0.3008},
			{Phase: "prefill", At: 0.301, Seconds: 0.132},
			{Phase: "hand-off", At: 0.433, Seconds: 0.028},
			{Phase: "relay", At: 0.461, Seconds: 2.959},
		},
		TTFT: new(0.461), ITL: new(0.0059), Longest: new(0.041), TokenReads: 500, Bytes: 99000,
		PromptTokens: new(int64(6144)), CachedTokens: new(int64(5632)), PredictedTokens: new(int64(5632)), AnswerTokens: new(int64(500)),
		Status: new(200), Attempts: []admin.AttemptInfo{first, last},
	}
}

// waiting is a request that has no pair yet.
func waiting() *admin.RequestInfo {
	return &admin.RequestInfo{
		ID: "waits", Running: true, Phase: "admit", Started: time.Unix(1_790_000_000, 0), Age: 2.5,
		Model: "sim-model", Endpoint: "completions", Class: "bulk", PromptBytes: 4000, Lacks: new("decode"),
		Phases: []admin.PhaseInfo{{Phase: "accept", Seconds: 0.001}, {Phase: "admit", At: 0.001, Seconds: 2.499}},
	}
}

// given is a request in JSON under a policy that compares nothing.
func given() *admin.RequestInfo {
	r := answeredInTwo()
	a := r.Attempts[1]
	a.Leased, a.Ended, a.Room, a.Reserved, a.First = 0.001, nil, nil, nil, nil
	a.Choice = admin.ChoiceInfo{
		Prefill: admin.RoleChoice{Reason: "round robin"}, Decode: admin.RoleChoice{Reason: "round robin"},
		Candidates: []admin.CandidateInfo{
			{Worker: "prefill-0", Role: "prefill", InFlight: 1},
			{Worker: "prefill-2", Role: "prefill", Chosen: true},
			{Worker: "decode-1", Role: "decode", Chosen: true, InFlight: 1},
		},
	}
	return &admin.RequestInfo{
		ID: "json", Running: true, Phase: "decode", Started: r.Started, Age: 1.5, Model: "sim-model", Endpoint: "generate", Dialect: "vllm-nixl", Class: "default",
		Pair: &a.PairInfo, Attempts: []admin.AttemptInfo{a}, PromptBytes: 300,
		Phases: []admin.PhaseInfo{{Phase: "accept", Seconds: 0.001}, {Phase: "prefill", At: 0.001, Seconds: 0.132}, {Phase: "decode", At: 0.133, Seconds: 1.367}},
	}
}

func refused() *admin.RequestInfo {
	return &admin.RequestInfo{
		ID: "refused", Phase: "accept", Started: time.Unix(1_790_000_000, 0), Age: 0.0004, Endpoint: "chat", Status: new(400), Code: "invalid_request",
		Reason: "400 invalid_request: messages: must not be empty", Phases: []admin.PhaseInfo{{Phase: "accept", Seconds: 0.0004}},
	}
}

func left() *admin.RequestInfo {
	r := answeredInTwo()
	r.Code, r.Reason, r.Phase, r.Status, r.Attempts = codeLeft, "client gone", "relay", new(200), r.Attempts[1:]
	r.Attempts[0].Code, r.Attempts[0].Reason = codeLeft, "499 client_gone: client gone"
	r.Attempts[0].Choice.Candidates[0].Wait, r.Attempts[0].Choice.Candidates[0].Work = new(0.0), new(0.05)
	r.Attempts[0].Choice.Unlisted, r.PromptTokens = 0, nil
	return r
}

func TestExplainIsReadable(t *testing.T) {
	var all bytes.Buffer
	for _, columns := range []int{100, 60} {
		s := &screen{out: &all, columns: columns}
		for _, r := range []*admin.RequestInfo{answeredInTwo(), waiting(), given(), refused(), left()} {
			explain(s, r)
			s.say("%s", "----")
		}
	}
	golden(t, "explain.txt", all.Bytes())
}

// fleetSeen is a daemon in which much is wrong.
func fleetSeen() *admin.Status {
	long := time.Now().Add(90*time.Second + 900*time.Millisecond)
	kv := func(used, capacity float64) admin.KVInfo {
		return admin.KVInfo{Used: &used, Capacity: &capacity, ReportAge: new(0.3)}
	}
	filling, stale := kv(741_200, 800_000), kv(12_000, 800_000)
	filling.Reserved, filling.SecondsFull = new(771_000.0), new(42.4)
	stale.Reserved, stale.ReportAge = new(30_000.0), new(33.0)
	return &admin.Status{
		Version: "v1.7.0", Uptime: 11_523,
		Requests: admin.RequestCounts{Running: 1042, Phases: map[string]int{"admit": 12, "prefill": 8, "relay": 1022}},
		Lines:    []admin.LineInfo{{Model: "sim-model", Waiting: 12, Lacks: "decode", Oldest: new(3.21)}},
		Workers: []admin.WorkerStatus{
			{ID: "prefill-0", Role: "prefill", Status: admin.Ready, Breaker: "closed", InFlight: 8, Waiting: new(3.0), KV: kv(1_250_000, 2_000_000)},
			{ID: "prefill-1", Role: "prefill", Status: admin.Ready, Breaker: "open", Bars: []admin.Bar{{Cause: "breaker", Until: &long, Reason: "5 failures in a row, the last: connection refused"}}},
			{ID: "prefill-2", Role: "prefill", Status: admin.Pending, Reason: "look: dial tcp 127.0.0.1:9: connect: connection refused"},
			{ID: "decode-0", Role: "decode", Status: admin.Ready, InFlight: 700, KV: filling},
			{ID: "decode-1", Role: "decode", Status: admin.NotReady, InFlight: 334, KV: stale, Bars: []admin.Bar{{Cause: "stalled", Reason: "no token for 20s"}}},
			{ID: "decode-2", Role: "decode", Status: admin.Ready, Breaker: "half_open", KV: admin.KVInfo{Unread: "the page has no vllm:kv_cache_usage_perc"}},
		},
		Pairs: []admin.PairStatus{{Prefill: "prefill-0", Decode: "decode-2", Breaker: "half_open"}},
	}
}

func TestStatusIsReadable(t *testing.T) {
	var all bytes.Buffer
	for _, columns := range []int{100, 60} {
		showStatus(&screen{out: &all, columns: columns}, fleetSeen())
		all.WriteString("----\n")
	}
	showStatus(&screen{out: &all}, &admin.Status{Version: "v1.7.0", Uptime: 3, Draining: true})
	golden(t, "status.txt", all.Bytes())
}

// Of 128 workers each has its line, which is no wider than the screen.
func TestStatusOfManyWorkers(t *testing.T) {
	var all bytes.Buffer
	many := fleetSeen()
	one := many.Workers[3]
	many.Workers = many.Workers[:0]
	for i := range 128 {
		w := one
		w.Role = [...]string{"prefill", "decode"}[i%2]
		w.ID = w.Role + "-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		many.Workers = append(many.Workers, w)
	}
	showStatus(&screen{out: &all, columns: 100}, many)
	lines := bytes.Split(bytes.TrimSpace(all.Bytes()), []byte("\n"))
	if len(lines) != 128+9 {
		t.Errorf("there are %d lines", len(lines))
	}
	for _, line := range lines {
		if n := utf8.RuneCount(line); n > 100 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

func TestWatchIsReadable(t *testing.T) {
	var all bytes.Buffer
	s := &screen{out: &all, columns: 100}
	status := &admin.Status{Workers: []admin.WorkerStatus{{ID: "prefill-2"}, {ID: "decode-1", KV: fleetSeen().Workers[3].KV}}}
	w := &watching{screen: s}
	whole := answeredInTwo()
	look := func(change func(r *admin.RequestInfo)) {
		r := *whole
		r.Running, r.Status, r.TTFT, r.AnswerTokens = true, nil, nil, nil
		change(&r)
		w.show(&r)
		if r.Pair != nil {
			w.heard(&r, status)
		}
	}
	w.begin(whole)
	look(func(r *admin.RequestInfo) {
		r.Phase, r.Phases, r.Pair, r.Attempts, r.Lacks, r.Age = "admit", r.Phases[:2], nil, nil, new("prefill"), 0.0002
	})
	look(func(r *admin.RequestInfo) {
		r.Phase, r.Phases, r.Attempts, r.Age = "admit", r.Phases[:2], r.Attempts[:1], 0.26
	})
	look(func(r *admin.RequestInfo) { r.Phase, r.Phases, r.Age = "prefill", r.Phases[:3], 0.31 })
	look(func(r *admin.RequestInfo) { r.Phase, r.Phases, r.Age = "hand-off", r.Phases[:4], 0.44 })
	look(func(r *admin.RequestInfo) { r.TTFT, r.Age = whole.TTFT, 1.5 })
	w.show(whole)
	w.end()
	for _, row := range []row{w.answerRow, w.prefillRow, w.decodeRow} {
		s.say("%s", row(100))
	}
	golden(t, "watch.txt", all.Bytes())
}

func TestAmount(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 812: "812", 999.6: "1.00k", 65_536: "65.5k", 741_200: "741k", 2e6: "2.00M", 3.5e12: "3500G"} {
		if got := amount(n); got != want {
			t.Errorf("amount(%v) = %q, want %q", n, got, want)
		}
	}
}
