package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/admin"
	"pdrouter/sim"
	"pdrouter/workers"
)

// A seenFleet is a fleet with an admin socket that is asked what it sees.
type seenFleet struct {
	*fleet
	t      *testing.T
	socket string
	admin  *adminClient
	client *http.Client
}

func newSeenFleet(t *testing.T, plan fleetPlan) *seenFleet {
	t.Helper()
	f := &seenFleet{t: t, socket: filepath.Join(t.TempDir(), "a.sock"), client: newClient(t)}
	change := plan.config
	plan.config = func(c *Config) {
		c.AdminSocket = f.socket
		if change != nil {
			change(c)
		}
	}
	f.fleet = newFleet(t, plan)
	c, err := (&adminPlace{socket: f.socket}).client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	f.admin = c
	if !eventually(f.knowsSpace) {
		t.Fatal("the engines do not tell of their KV caches")
	}
	return f
}

// knowsSpace reports whether the ledger of every decode worker is known.
func (f *seenFleet) knowsSpace() bool {
	return !slices.ContainsFunc(f.registry.Statuses(), func(s workers.Status) bool {
		return s.Worker.Role == workers.Decode && math.IsNaN(s.KVSpace.Capacity)
	})
}

// send begins a request with an ID, and returns what ends it and its answer's
// status when it has ended.
func (f *seenFleet) send(id string, stream bool, tokens int) (stop context.CancelFunc, ended <-chan int) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	body := jsonOf(f.t, map[string]any{"model": "sim-model", "prompt": prompt(len(id), 4000), "max_tokens": tokens, "ignore_eos": true, "stream": stream})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+"/v1/completions", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	done := make(chan int, 1)
	go func() {
		resp, err := f.client.Do(req)
		if err != nil {
			done <- 0
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		done <- resp.StatusCode
	}()
	return stop, done
}

// see returns a request as it is now; its ID is empty if it is not known.
func (f *seenFleet) see(id string) admin.RequestInfo {
	var list admin.Requests
	if f.admin.do(context.Background(), http.MethodGet, requestPath(id), &list) != nil || len(list.Requests) == 0 {
		return admin.RequestInfo{}
	}
	return list.Requests[0]
}

// await waits until a request is seen to be as said.
func (f *seenFleet) await(id, what string, so func(r admin.RequestInfo) bool) admin.RequestInfo {
	f.t.Helper()
	var r admin.RequestInfo
	if !eventually(func() bool { r = f.see(id); return so(r) }) {
		f.t.Fatalf("%s is not seen %s, but %+v", id, what, r)
	}
	return r
}

func (f *seenFleet) inPhase(id, phase string) admin.RequestInfo {
	f.t.Helper()
	return f.await(id, "in "+phase, func(r admin.RequestInfo) bool { return r.Running && r.Phase == phase })
}

func (f *seenFleet) end(id string) admin.RequestInfo {
	f.t.Helper()
	return f.await(id, "to have ended", func(r admin.RequestInfo) bool { return r.ID != "" && !r.Running })
}

// logged returns the pair that the access log has of a request.
func (f *seenFleet) logged(id string) (prefill, decode string) {
	f.t.Helper()
	for _, e := range f.logs.All() {
		fields := e.ContextMap()
		if fields["request_id"] == id {
			return fmt.Sprint(fields["prefill"]), fmt.Sprint(fields["decode"])
		}
	}
	f.t.Errorf("the access log has no line of %s", id)
	return "", ""
}

// Engines that hang at some point keep a request in each phase, where it is seen.
func TestARequestIsSeenInEachPhase(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		for _, tt := range []struct {
			phase  string
			stream bool
			leg    string
			fault  sim.Fault
		}{
			{"prefill", true, sim.Prefill, sim.Fault{Kind: sim.FaultHang}},
			{"prefill", false, sim.Prefill, sim.Fault{Kind: sim.FaultHang}},
			{"hand-off", true, sim.Decode, sim.Fault{Kind: sim.FaultStall}},
			{"decode", false, sim.Decode, sim.Fault{Kind: sim.FaultWedge}},
			{"relay", true, sim.Decode, sim.Fault{Kind: sim.FaultStall, Tokens: 3}},
		} {
			t.Run(fmt.Sprint(dialect, " ", tt.phase, " stream=", tt.stream), func(t *testing.T) {
				f := newSeenFleet(t, fleetPlan{dialect: dialect, engine: func(c *sim.Config) { c.DisconnectDelay = time.Millisecond }})
				for _, e := range f.engines() {
					tt.fault.Leg = tt.leg
					e.Fail(tt.fault)
				}
				stop, ended := f.send("seen", tt.stream, 20)
				r := f.inPhase("seen", tt.phase)
				if !slices.ContainsFunc(f.runningNow("?phase="+tt.phase), func(o admin.RequestInfo) bool { return o.ID == "seen" }) {
					t.Errorf("it is not among those that run in phase %s", tt.phase)
				}
				if r.Pair == nil || len(r.Attempts) != 1 || r.Reserved == nil || (r.Room != nil) != (dialect == sim.SGLang) || r.Status != nil {
					t.Errorf("it is seen as %+v", r)
				}
				if tokens := tt.phase == "relay"; (r.TTFT != nil) != tokens || (r.TokenReads > 0) != tokens {
					t.Errorf("TTFT %v, %d reads with tokens in phase %s", r.TTFT, r.TokenReads, tt.phase)
				}
				stop()
				<-ended
				if r = f.end("seen"); r.Code != codeLeft || r.Phase != tt.phase {
					t.Errorf("it has ended with %q in phase %s, want it left in %s", r.Code, r.Phase, tt.phase)
				}
				for _, e := range f.engines() {
					e.ClearFaults()
				}
			})
		}
	}
}

// runningNow returns the requests that run.
func (f *seenFleet) runningNow(query string) []admin.RequestInfo {
	f.t.Helper()
	var list admin.Requests
	if err := f.admin.do(context.Background(), http.MethodGet, "/requests"+query, &list); err != nil {
		f.t.Fatal(err)
	}
	return list.Requests
}

// A body that does not come to its end is a request in accept.
func TestARequestIsSeenWhileItComes(t *testing.T) {
	f := newSeenFleet(t, fleetPlan{dialect: sim.SGLang})
	conn, err := net.Dial("tcp", f.data.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: slow\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"model\":")
	if r := f.inPhase("slow", "accept"); r.Endpoint != "completions" || r.Pair != nil || len(r.Phases) != 1 {
		t.Errorf("it is seen as %+v", r)
	}
}

// A request that waits says for what, and afterwards for what it did; KV space
// that is reserved for the one that runs is what the ledger has of it.
func TestAWaitingRequestSaysWhatItLacks(t *testing.T) {
	f := newSeenFleet(t, fleetPlan{
		dialect: sim.SGLang, engine: func(c *sim.Config) { c.DisconnectDelay = time.Millisecond },
		config: func(c *Config) { c.Workers.Admission.MaxInFlight = 1 },
	})
	for _, e := range f.prefill {
		e.Fail(sim.Fault{Kind: sim.FaultHang})
	}
	stop, ended := f.send("first", true, 20)
	first := f.inPhase("first", "prefill")
	reserved := 0.0
	for _, s := range f.registry.Statuses() {
		if s.Worker.Role == workers.Decode {
			reserved += s.KVSpace.Reserved
		}
	}
	if first.Reserved == nil || math.Abs(*first.Reserved-reserved) > 0.02*reserved {
		t.Errorf("%v tokens are seen as reserved, and the ledgers have %v", valueOf(first.Reserved), reserved)
	}
	_, second := f.send("second", true, 20)
	r := f.await("second", "to wait", func(r admin.RequestInfo) bool { return r.Lacks != nil })
	if *r.Lacks != "slots" || r.Phase != "admit" || r.Pair != nil {
		t.Errorf("it is seen as %+v", r)
	}
	out, err := runCommand(t, "status", "--admin-socket", f.socket)
	if err != nil || !strings.Contains(out, "2 requests: 1 in admit, 1 in prefill\n1 of them waits for a slot: ") {
		t.Errorf("status says %v\n%s", err, out)
	}
	out, err = runCommand(t, "explain", "second", "--admin-socket", f.socket)
	if err != nil || !strings.Contains(out, "waits for slots") || !strings.Contains(out, "It waits for a slot: as many requests are under way as may be.") {
		t.Errorf("explain says %v\n%s", err, out)
	}
	for _, e := range f.prefill {
		e.ClearFaults()
	}
	stop()
	<-ended
	if status := <-second; status != 200 {
		t.Errorf("the second is answered with %d", status)
	}
	if r = f.end("second"); valueOf(r.Lacked) != "slots" || r.Lacks != nil || r.Attempts[0].Choice.Waited <= 0 {
		t.Errorf("it is seen as %+v", r)
	}
}

// A request that was tried again shows each attempt with its own reason, and the
// last one's pair is that of the access log and of the candidates.
func TestARetryShowsBothAttempts(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newSeenFleet(t, fleetPlan{dialect: dialect})
			for _, e := range f.decode {
				e.Fail(sim.Fault{Kind: sim.FaultStatus, Status: 500, Body: "out of luck", Leg: sim.Decode})
			}
			f.decode[1].ClearFaults()
			var r admin.RequestInfo
			for i := 0; len(r.Attempts) < 2 && i < 4; i++ {
				id := fmt.Sprint("again-", i)
				_, ended := f.send(id, true, 8)
				if status := <-ended; status != 200 {
					t.Fatalf("answered with %d", status)
				}
				r = f.end(id)
			}
			if len(r.Attempts) != 2 {
				t.Fatalf("it is seen with %d attempts", len(r.Attempts))
			}
			first, last := r.Attempts[0], r.Attempts[1]
			if first.Decode != "decode-0" || first.Leg != "decode" || !strings.Contains(first.Reason, "out of luck") || first.Code == "" || first.Ended == nil {
				t.Errorf("the first attempt is seen as %+v", first)
			}
			if last.Decode != "decode-1" || last.Code != "" || last.Reason != "" || last.First == nil {
				t.Errorf("the last attempt is seen as %+v", last)
			}
			f.wantChosen(r)
			left := ""
			for _, c := range last.Choice.Candidates {
				if c.Worker == "decode-0" {
					left = valueOf(c.LeftOut)
				}
			}
			if left != workers.LeftAvoided {
				t.Errorf("decode-0 is left out of the second attempt because of %q", left)
			}
		})
	}
}

// wantChosen compares the candidates that were chosen with the access log.
func (f *seenFleet) wantChosen(r admin.RequestInfo) {
	f.t.Helper()
	prefill, decode := f.logged(r.ID)
	var chosen []string
	for _, c := range r.Attempts[len(r.Attempts)-1].Choice.Candidates {
		if c.Chosen {
			chosen = append(chosen, c.Worker)
		}
	}
	if slices.Sort(chosen); !slices.Equal(chosen, []string{decode, prefill}) || r.Pair.Prefill != prefill || r.Pair.Decode != decode {
		f.t.Errorf("the candidates chosen are %v, the pair is %v, and the access log has %s and %s", chosen, r.Pair, prefill, decode)
	}
}

// Under every policy the candidates that are marked are the pair of the access
// log, and the choice says by what they were chosen.
func TestTheChoiceIsThatOfTheAccessLog(t *testing.T) {
	for _, name := range []string{"cache_aware", "round_robin", "least_load", "power_of_two", "manual"} {
		f := newSeenFleet(t, fleetPlan{dialect: sim.VLLMNixl, config: func(c *Config) { c.Policy = name }})
		for i := range 4 {
			id := fmt.Sprint("chosen-", i)
			_, ended := f.send(id, i%2 == 0, 4)
			<-ended
			r := f.end(id)
			f.wantChosen(r)
			if c := r.Attempts[0].Choice; len(c.Candidates) != 4 || c.Prefill.Reason == "" || c.Decode.Reason == "" {
				t.Errorf("%s: the choice is seen as %+v", name, c)
			}
		}
	}
}

// Whatever clients name their requests, what is kept of them is bounded.
func TestManyIDsMakeNothingGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	f := newSeenFleet(t, fleetPlan{dialect: sim.SGLang})
	const all, kept = 10_000, 1024
	for i := range all {
		req, err := http.NewRequest(http.MethodPost, f.base+"/v1/completions", strings.NewReader(`{"model":"nobody"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Request-Id", fmt.Sprint("one-of-many-", i))
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	var list admin.Requests
	if err := f.admin.do(t.Context(), http.MethodGet, "/requests/finished?limit=10000", &list); err != nil {
		t.Fatal(err)
	}
	if list.Total != kept || len(list.Requests) != kept || list.Requests[0].ID != fmt.Sprint("one-of-many-", all-1) {
		t.Errorf("%d are kept, the last one is %s", list.Total, list.Requests[0].ID)
	}
	if r := f.see("one-of-many-0"); r.ID != "" {
		t.Errorf("the first one is known still: %+v", r)
	}
	if now := f.runningNow(""); len(now) != 0 {
		t.Errorf("%d still run", len(now))
	}
	out, err := runCommand(t, "explain", "--failed", "--admin-socket", f.socket)
	if err != nil || !strings.Contains(out, "It was never given to a worker: ") {
		t.Errorf("explain says %v\n%s", err, out)
	}
}

// watch follows the next request from its path to its end, and in JSON.
func TestWatchFollowsTheNextRequest(t *testing.T) {
	f := newSeenFleet(t, fleetPlan{dialect: sim.SGLang, engine: func(c *sim.Config) {
		c.PrefillPerToken, c.DecodePerToken = 100*time.Microsecond, 10*time.Millisecond
	}})
	for _, args := range [][]string{{"watch"}, {"watch", "--json"}} {
		said := make(chan string, 1)
		go func() {
			out, err := runCommand(t, append(args, "--model", "sim-model", "--admin-socket", f.socket)...)
			said <- fmt.Sprint(out, err)
		}()
		var out string
		for i := 0; out == ""; i++ { // it may not be listening yet
			_, ended := f.send(fmt.Sprint("watched-", len(args), "-", i), true, 30)
			<-ended
			select {
			case out = <-said:
			default:
			}
		}
		wants := []string{"accepted    completions for sim-model", "path        prefill-", "prefilled   in ", "first token", "ended       answered with status 200", "<nil>", "% of 100"}
		if len(args) > 1 {
			wants = []string{`"phase":"relay"`, `"running":true`, `"running":false`, `"status":200`}
		}
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%q says nothing of %q:\n%s", args, want, out)
			}
		}
	}
}
