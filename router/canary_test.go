package router

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/workers"
)

const onlyToken = `data: {"id":"x","choices":[{"index":0,"text":"a","finish_reason":"length"}]}` + "\n\n"

// canary sends a canary through the only pair of f.
func (f *fleet) canary(t *testing.T) error {
	t.Helper()
	all := f.registry.Statuses()
	return f.handler.Canary(t.Context(), all[0].Worker, all[1].Worker)
}

// TestCanary is about what comes of a canary, and where it shows.
func TestCanary(t *testing.T) {
	tests := []struct {
		name   string
		decode http.HandlerFunc
		result string
		fault  string   // kind of the error, if it is a fault
		told   []string // to the judge; how each begins
	}{
		{"the token comes", events(onlyToken, doneEvent), "ok", "", []string{"began", "decode: <nil>", "prefill: <nil>"}},
		{"the hand-off fails", reply(500, `{"error":{"message":"Internal server error"}}`), "failed", "handoff", []string{"decode: handoff", "prefill: <nil>"}},
		{"decode fails", reply(500, `{"error":{"message":"out of memory"}}`), "failed", "failed", []string{"decode: failed", "prefill: <nil>"}},
		{"decode dies after the token", then(events(strings.Replace(onlyToken, `"length"`, "null", 1)), reset), "failed", "unreachable", []string{"began", "decode: unreachable", "prefill: <nil>"}},
		{"decode is busy", reply(503, `{}`), "unclear", "", []string{"decode: busy", "prefill: <nil>"}},
		{"decode wants a key", reply(401, `{}`), "unclear", "", []string{"decode: <nil>", "prefill: <nil>"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "vllm-nixl", reply(200, prefillReply), tt.decode)
			judge := &trace{}
			f.registry.SetJudge(judge)

			err := f.canary(t)

			fault, kind := new(workers.Fault), ""
			if errors.As(err, &fault) {
				kind = fault.Kind.String()
			}
			if kind != tt.fault || (err == nil) != (tt.result == "ok") {
				t.Errorf("Canary = %v, want fault %q", err, tt.fault)
			}
			if n := f.value(t, "pdrouter_canaries_total", map[string]string{"result": tt.result}); n != 1 {
				t.Errorf("canaries that are %s = %v, want 1", tt.result, n)
			}
			f.handler.Wait()
			told := judge.told()
			for i, want := range tt.told {
				if len(told) != len(tt.told) || !strings.HasPrefix(told[i], want) {
					t.Fatalf("the judge was told %q, want %q", told, tt.told)
				}
			}
			f.wantUnseen(t)
		})
	}
}

// wantUnseen checks that nothing shows of canaries but their own metric.
func (f *fleet) wantUnseen(t *testing.T) {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			n := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if family.GetName() != "pdrouter_canaries_total" && n > 0 {
				t.Errorf("%s counts a canary: %v", family.GetName(), m)
			}
		}
	}
	if lines := f.logs.All(); len(lines) > 0 {
		t.Errorf("%d lines are in the log of level info, the first %q", len(lines), lines[0].Message)
	}
}

// TestCanaryBody: a canary asks for one token, and no prompt is like another.
func TestCanaryBody(t *testing.T) {
	var prompts []string
	for range 3 {
		var body struct {
			Model, Prompt string
			MaxTokens     int `json:"max_tokens"`
			Stream        bool
		}
		if err := json.Unmarshal(canaryBody(`a "model"`, 100), &body); err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(body.Prompt)
		if body.Model != `a "model"` || body.MaxTokens != 1 || !body.Stream || len(words) != 101 {
			t.Errorf("body asks for %d tokens of %q after %d words", body.MaxTokens, body.Model, len(words))
		}
		prompts = append(prompts, words[0]+words[1])
	}
	slices.Sort(prompts)
	if len(slices.Compact(prompts)) != 3 {
		t.Errorf("prompts begin alike: %q", prompts)
	}
	for size, want := range map[int]int{0: fewestWords, 1: fewestWords, 1 << 20: mostWords} {
		var body struct{ Prompt string }
		if err := json.Unmarshal(canaryBody("m", size), &body); err != nil || len(strings.Fields(body.Prompt)) != want {
			t.Errorf("%d words for a block of %d, want %d", len(strings.Fields(body.Prompt)), size, want)
		}
	}
}

// TestCanaryEnds: a canary is neither waited for at a shutdown, nor sent through
// a pair that may not be leased.
func TestCanaryEnds(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	judge := &trace{}
	f.registry.SetJudge(judge)
	all := f.registry.Statuses()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.handler.Canary(ctx, all[0].Worker, all[1].Worker) }()
	wait(t, "both legs", func() bool { return len(f.prefill.got())+len(f.decode.got()) == 2 })
	cancel()
	if err := <-ended; err == nil || errors.As(err, new(*workers.Fault)) {
		t.Errorf("Canary = %v, want that it was ended", err)
	}
	if want := []string{"decode: context canceled", "prefill: context canceled"}; !slices.Equal(judge.told(), want) {
		t.Errorf("the judge was told %q, want %q", judge.told(), want)
	}
	f.bar(workers.Breaking, time.Now().Add(time.Minute))
	if err := f.canary(t); !errors.As(err, new(*workers.NoneError)) {
		t.Errorf("Canary on a barred pair = %v, want a NoneError", err)
	}
	if legs := len(f.prefill.got()) + len(f.decode.got()); legs != 2 {
		t.Errorf("%d legs were sent, want the first two", legs)
	}
}

// TestCanaryThatHangs: two engines that wait for one another for good are a
// hand-off that failed.
func TestCanaryThatHangs(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	f.handler.canaries.standing.Store(f.handler.canaries.newStanding(Config{FirstByte: 20 * time.Millisecond, StreamIdle: time.Minute, ClientStall: time.Minute, MaxAnswerBytes: 1 << 20}))
	judge := &trace{}
	f.registry.SetJudge(judge)
	fault := new(workers.Fault)
	if err := f.canary(t); !errors.As(err, &fault) || fault.Kind != workers.HandOff {
		t.Errorf("Canary = %v, want a hand-off that failed", err)
	}
	for _, line := range judge.told() {
		if !strings.Contains(line, "handoff") {
			t.Errorf("the judge was told %q", judge.told())
		}
	}
}
