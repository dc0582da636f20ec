package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
)

// smallPlan is a demo of about two seconds, on any free ports.
func smallPlan() demoPlan {
	return demoPlan{
		clock: 20, longPrompt: 100_000, longAnswer: 160,
		samePrompt: 600, shortPrompt: 40, times: 6, different: 12,
		trace: 3 * time.Second,
	}
}

// runDemo runs a demo once into a file, as it were, and returns what it showed
// and what it knows.
func runDemo(t *testing.T, plan demoPlan) (text string, facts demoFacts) {
	t.Helper()
	var out, asJSON bytes.Buffer
	d := &demo{plan: plan, screen: newScreen(&out), once: true, facts: &asJSON}
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("demo: %v\n%s", err, out.String())
	}
	if err := json.Unmarshal(asJSON.Bytes(), &facts); err != nil {
		t.Fatal(err)
	}
	return out.String(), facts
}

func TestDemo(t *testing.T) {
	text, facts := runDemo(t, smallPlan())
	t.Run("nothing was wrong", func(t *testing.T) {
		if len(facts.Faults)+len(facts.Violations)+len(facts.Warnings) > 0 || !strings.Contains(text, "All as it must be") {
			t.Errorf("faults %q, violations %q, warnings %q", facts.Faults, facts.Violations, facts.Warnings)
		}
	})
	t.Run("the watched request filled the KV of its decode engine, and left nothing", func(t *testing.T) {
		w := facts.Watched
		if w.PromptTokens != 100_000 || w.Tokens != 160 || w.Room == 0 || w.BlocksLeft != 0 {
			t.Errorf("watched = %+v", w)
		}
		if least := 100_000 / 128; w.PeakBlocks < least || w.PeakBlocks > least+3 {
			t.Errorf("%d blocks were in use, want those of 100,000 tokens", w.PeakBlocks)
		}
		// What 100,000 tokens take at 33,333/s, and 159 pauses of 30 ms.
		if w.TTFT < 3 || w.Duration < 3+4.7 {
			t.Errorf("the first token came after %.1f s, the last after %.1f s: too early", w.TTFT, w.Duration)
		}
		for _, word := range []string{w.Prefill + " computes", w.Decode + " sets blocks aside", "first token", "last token", fmt.Sprint("room     ", w.Room)} {
			if !strings.Contains(text, word) {
				t.Errorf("the text does not say %q", word)
			}
		}
	})
	t.Run("the same prompt went to one pair and was found there after the first time", func(t *testing.T) {
		same := facts.Same
		if len(same.Requests) != 6 {
			t.Fatalf("same = %+v, want 6 requests", same)
		}
		for i, r := range same.Requests {
			if want := 512 * min(i, 1); r.Found != want || r.Told > 0 && r.Told != want || r.Prefill != same.Requests[0].Prefill || r.Decode != same.Requests[0].Decode {
				t.Errorf("request %d = %+v, want %d tokens found on the pair of the first", i+1, r, want)
			}
		}
	})
	t.Run("the short prompt was not found, and the text says why", func(t *testing.T) {
		if len(facts.Short.Requests) != 6 || slices.ContainsFunc(facts.Short.Requests, func(r sameFact) bool { return r.Found > 0 }) || !strings.Contains(text, "Only whole blocks are kept") {
			t.Errorf("short = %+v", facts.Short)
		}
	})
	t.Run("different prompts spread", func(t *testing.T) {
		sum := map[string]int{}
		for _, s := range facts.Different.Shares {
			sum[s.Role] += s.Requests
		}
		if sum["prefill"] != 12 || sum["decode"] != 12 {
			t.Errorf("shares = %+v, want 12 requests of either role", facts.Different.Shares)
		}
	})
	t.Run("the trace was played", func(t *testing.T) {
		tr := facts.Trace
		if tr.Requests != 10 || tr.Done != 10 || tr.FailedCount != 0 || tr.TTFT[0] <= 0 || tr.ITL[1] <= 0 || tr.FoundTokens == 0 || tr.FoundTokens > tr.RepeatTokens {
			t.Errorf("trace = %+v", tr)
		}
	})
	t.Run("a file gets plain lines of at most 80 columns", func(t *testing.T) {
		if i := strings.IndexAny(text, "\x1b\r\b"); i >= 0 {
			t.Errorf("there is a control character in %q", text[max(0, i-20):i+20])
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	})
}

// A trigger is a file that does something, once, when a text is written to it.
type trigger struct {
	written strings.Builder
	text    string
	do      func()
}

func (w *trigger) Write(p []byte) (int, error) {
	w.written.Write(p)
	if w.do != nil && strings.Contains(w.written.String(), w.text) {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

func (w *trigger) String() string { return w.written.String() }

// Ctrl-C is the end of its context, wherever the demo is.
func TestDemoEndsWhenInterrupted(t *testing.T) {
	for _, at := range []string{"pdrouter demo", "sets blocks aside", "first token", "3. The first", "Ctrl-C ends it"} {
		t.Run("at "+at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &trigger{text: at, do: cancel}
			d := &demo{plan: smallPlan(), screen: newScreen(out)}
			if err := d.run(ctx); err != nil || out.do != nil || !strings.HasSuffix(out.String(), "Stopped.\n") {
				t.Errorf("run = %v after\n%s", err, out.String())
			}
		})
	}
}

// After its three parts the demo serves, as it says, and tells where requests
// of others went.
func TestDemoGoesOnServing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	serving := make(chan struct{})
	out := &trigger{text: "Where requests go:", do: func() { close(serving) }}
	plan := smallPlan()
	plan.trace = time.Millisecond
	d := &demo{plan: plan, screen: newScreen(out)}
	ended := make(chan error)
	go func() { ended <- d.run(ctx) }()
	<-serving
	body := `{"model":"sim-model","stream":true,"messages":[{"role":"user","content":"Hello"}]}`
	status, answer, err := request(t, "POST", d.fleet.base+"/v1/chat/completions", "", body)
	if status != 200 || err != nil || !strings.HasSuffix(strings.TrimSpace(answer), "[DONE]") {
		t.Errorf("answer = %d, %v, %s", status, err, answer)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	text := out.String()
	if !strings.Contains(text, "curl -N "+d.fleet.base+"/v1/chat/completions") {
		t.Errorf("the text has no line to try: %s", text)
	}
	if !strings.Contains(text, "200 /v1/chat/completions -> prefill-") {
		t.Errorf("the text does not say where the request went: %s", text)
	}
}

// startSmall runs the fleet of a small demo until the test ends.
func startSmall(t *testing.T) *demo {
	t.Helper()
	d := &demo{plan: smallPlan(), screen: newScreen(t.Output())}
	fleet, err := startDemoFleet(t.Context(), d.plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.close(); err != nil {
			t.Error(err)
		}
	})
	d.fleet = fleet
	return d
}

// What the demo says of where requests went is what the engines have counted.
func TestDemoTellsWhatEnginesCount(t *testing.T) {
	d := startSmall(t)
	before := d.fleet.stats()
	same, err := d.repeat(t.Context(), "test-", 600)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]int{}
	for _, r := range same.Requests {
		said[r.Prefill]++
		said[r.Decode]++
	}
	for _, s := range d.fleet.served(before) {
		if s.Requests != said[s.Worker] {
			t.Errorf("%s had %d requests, the demo says %d", s.Worker, s.Requests, said[s.Worker])
		}
	}
}

// A demo on engines that fail says so, and why.
func TestDemoTellsFailures(t *testing.T) {
	d := startSmall(t)
	d.once = true
	for _, e := range d.fleet.engines {
		if e.role == sim.Decode {
			e.Fail(sim.Fault{Kind: sim.FaultStatus, Status: 500, Body: `{"message":"out of memory"}`})
		}
	}
	facts, err := d.show(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = d.conclude(facts)
	if err == nil || !strings.Contains(err.Error(), "not as they must be") {
		t.Errorf("conclude = %v, want an error", err)
	}
	faults := strings.Join(facts.judge(), "\n")
	for _, want := range []string{"the watched request failed", "the same prompt, request 6: failed", "one of the different prompts failed", "10 requests of the trace failed"} {
		if !strings.Contains(faults, want) {
			t.Errorf("the verdict does not say %q:\n%s", want, faults)
		}
	}
}

func TestDemoTakesOtherPortsAloud(t *testing.T) {
	ln, err := net.Listen("tcp", demoHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().(*net.TCPAddr).Port
	plan := smallPlan()
	plan.ports.router, plan.ports.bootstrap[1] = taken, taken
	fleet, err := startDemoFleet(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fleet.close() }()
	if len(fleet.taken) != 2 {
		t.Fatalf("said of taken ports: %q", fleet.taken)
	}
	for i, who := range []string{"the bootstrap server of prefill-1", "the router"} {
		if !strings.HasPrefix(fleet.taken[i], fmt.Sprintf("Port %d is taken; %s has ", taken, who)) {
			t.Errorf("said %q of %s", fleet.taken[i], who)
		}
	}
	if strings.HasSuffix(fleet.base, fmt.Sprint(":", taken)) {
		t.Errorf("the router is at %s, where somebody else listens", fleet.base)
	}
	var out bytes.Buffer
	d := &demo{plan: plan, screen: newScreen(&out), fleet: fleet}
	d.introduce()
	if !strings.Contains(out.String(), fleet.taken[0]) || !strings.Contains(out.String(), fleet.taken[1]) {
		t.Errorf("the demo does not say it: %s", out.String())
	}
}
