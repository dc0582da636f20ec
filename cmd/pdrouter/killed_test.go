package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pdrouter/record"
	"pdrouter/sim"
	"pdrouter/workers"
)

// An engineProcess is a simulated engine as a process on a port of its own.
type engineProcess struct {
	*exec.Cmd
	t    *testing.T
	args []string
	url  string
}

// startProcess runs an engine as a process until the test ends.
func startProcess(t *testing.T, dialect, role string, args ...string) *engineProcess {
	t.Helper()
	e := &engineProcess{t: t, args: append([]string{"--dialect", dialect, "--role", role, "--port", strconv.Itoa(freePort(t))}, args...)}
	e.start()
	t.Cleanup(e.kill)
	return e
}

// freePort returns a port that nobody listens at, and that no connection is
// given as its own: those are above 32767. So it is free for who comes back, too.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.N(20000)
		ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func (e *engineProcess) start() {
	e.t.Helper()
	e.Cmd, e.url, _ = startSim(e.t, e.args...)
}

// kill does what kill -9 does.
func (e *engineProcess) kill() {
	_ = e.Process.Kill()
	_ = e.Wait()
}

// newProcessFleet runs a router in this process in front of engines in others.
func newProcessFleet(t *testing.T, config func(*Config), prefill, decode []*engineProcess) *fleet {
	t.Helper()
	cfg := localConfig()
	for _, e := range prefill {
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: workers.Prefill, URL: e.url})
	}
	for _, e := range decode {
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: workers.Decode, URL: e.url})
	}
	if config != nil {
		config(&cfg)
	}
	f := &fleet{}
	f.start(t, cfg)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("log of the router:\n" + f.logOfWorkers())
		}
	})
	return f
}

// logOfWorkers returns the log lines that are about workers.
func (f *fleet) logOfWorkers() string {
	var b strings.Builder
	for _, e := range f.logs.All() {
		if strings.HasPrefix(e.Message, "worker") {
			fmt.Fprintln(&b, e.Time.Format("05.000"), e.Level, e.Message, e.ContextMap())
		}
	}
	return b.String()
}

// streamsFrom returns how many streams have had tokens from a decode engine, and
// have more to come.
func (f *fleet) streamsFrom(url string) (n int) {
	for _, v := range f.handler.Records().Running() {
		if v.Phase == record.Relay && v.Attempts[len(v.Attempts)-1].DecodeURL == url {
			n++
		}
	}
	return n
}

// A decode engine is killed under load. The streams that it had begun end in an
// error event at once; everything else is answered by the other one. Started
// again on its port, it takes its share, a small one at first.
func TestKilledDecode(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			prefill := []*engineProcess{startProcess(t, dialect, sim.Prefill), startProcess(t, dialect, sim.Prefill)}
			pace := []string{"--decode-us-per-token", "3000"}
			decode := []*engineProcess{startProcess(t, dialect, sim.Decode, pace...), startProcess(t, dialect, sim.Decode, pace...)}
			f := newProcessFleet(t, nil, prefill, decode)
			victim, other := decode[0], decode[1]
			const clients = 16
			c := newCrowd(t, f.base, clients, func(i int) step { return completion(t, i, prompt(i, 900), 150) })
			// vLLM tells when it was started in seconds, SGLang what it has done: one
			// that is younger than its reports are apart cannot be told from the next.
			began := time.Now()
			if !eventually(func() bool {
				p := f.scraped(t)
				return p.legs(victim.url, "ok") > 10 && time.Since(began) > 2500*time.Millisecond && f.streamsFrom(victim.url) >= clients/4
			}) {
				t.Fatal("requests do not flow at first")
			}
			killed := time.Now()
			victim.kill()
			open := func() bool { return f.scraped(t).sum("smg_worker_health", `worker="`+victim.url+`"`) == 0 }
			if !eventually(open) {
				t.Error("nothing is held against the dead engine")
			}
			left := time.Since(killed)
			since := f.scraped(t).legs(other.url, "ok")
			if !eventually(func() bool { return f.scraped(t).legs(other.url, "ok") > since+30 }) {
				t.Error("the other one does not go on")
			}
			legs := f.scraped(t).legs(victim.url, "ok")

			victim.start()
			restarted := time.Now()
			if !eventually(func() bool { return f.scraped(t).legs(victim.url, "ok") > legs+2 }) {
				t.Error("it gets nothing after its return")
			}
			back := time.Since(restarted)
			before := f.scraped(t)
			if !eventually(func() bool { return f.scraped(t).legs(other.url, "ok") > before.legs(other.url, "ok")+40 }) {
				t.Error("the other one does not go on")
			}
			after := f.scraped(t)
			all := c.disperse()
			wantOutcomes(t, all, wholeAnswer, toldInStream)
			told := slices.DeleteFunc(slices.Clone(all), func(a answered) bool { return a.outcome != toldInStream })
			t.Logf("left out after %v, %d streams broke off of %d requests, back after %v with %d of %d requests",
				left.Round(time.Millisecond), len(told), len(all), back.Round(time.Millisecond),
				after.legs(victim.url)-before.legs(victim.url), after.legs(other.url)-before.legs(other.url))
			if len(told) == 0 || len(told) > clients {
				t.Errorf("%d streams broke off, want some of the %d that were under way", len(told), clients)
			}
			for _, a := range told {
				if late := a.ended.Sub(killed); late > time.Second {
					t.Errorf("a stream broke off %v after the engine died", late)
				}
			}
			if after.breaker(victim.url) != 0 || after.sum("smg_worker_health") != 4 {
				t.Error("something is held against the engine that is well again")
			}
			after.wantNoBreakers(t, victim.url)
			if mine, theirs := after.legs(victim.url)-before.legs(victim.url), after.legs(other.url)-before.legs(other.url); mine*2 > theirs {
				t.Errorf("a cold engine gets %d requests where another one gets %d", mine, theirs)
			}
			if lines := f.logged("worker has started anew", victim.url); len(lines) != 1 {
				t.Errorf("log = %q, want one line that it has started anew", lines)
			}
			if lines := f.logged("worker has started anew", ""); len(lines) != 1 {
				t.Errorf("log = %q, want one line", lines)
			}
		})
	}
}

// The only worker of a role dies and comes back. Meanwhile clients are told to
// come again soon; the last worker of a role is never left alone for long.
func TestOnlyWorkerDies(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		for _, role := range []string{sim.Prefill, sim.Decode} {
			t.Run(fmt.Sprint(dialect, " ", role), func(t *testing.T) {
				t.Parallel()
				var bootstrap []string
				if dialect == sim.SGLang {
					bootstrap = []string{"--bootstrap-port", strconv.Itoa(freePort(t))}
				}
				engines := map[string]*engineProcess{
					sim.Prefill: startProcess(t, dialect, sim.Prefill, bootstrap...),
					sim.Decode:  startProcess(t, dialect, sim.Decode),
				}
				f := newProcessFleet(t, nil, []*engineProcess{engines[sim.Prefill]}, []*engineProcess{engines[sim.Decode]})
				c := newCrowd(t, f.base, 4, func(i int) step { return completion(t, i, prompt(i, 400), 4) })
				whole := func(a answered) bool { return a.outcome == wholeAnswer }
				if !eventually(func() bool { return c.seen(whole) > 20 }) {
					t.Fatal("requests do not flow at first")
				}
				killed := time.Now()
				engines[role].kill()
				refused := func(a answered) bool { return a.status == 503 && a.ended.After(killed) }
				if !eventually(func() bool { return c.seen(refused) > 50 }) {
					t.Error("clients are not told to come again")
				}
				engines[role].start()
				returned := time.Now()
				if !eventually(func() bool { return c.seen(func(a answered) bool { return whole(a) && a.began.After(returned) }) > 0 }) {
					t.Error("requests do not flow again")
				}
				took := time.Since(returned)
				all := c.disperse()
				t.Logf("flowing again %v after its return; %v", took.Round(time.Millisecond), outcomesOf(all))
				if took > 4*time.Second { // two seconds until it is tried, and a busy machine
					t.Errorf("the first answer came %v after its return, want about two seconds", took)
				}
				wantOutcomes(t, all, wholeAnswer, toldInStream, "503 no_available_workers", "502 "+role+"_request_failed")
				for _, a := range all {
					if n, err := strconv.Atoi(a.retryAfter); a.status == 503 && (err != nil || n < 1 || n > 3) { // two seconds and a bit are three
						t.Errorf("503 with Retry-After %q, want 1 to 3", a.retryAfter)
					}
				}
			})
		}
	}
}

// The only worker of a role answers 500. Below the least number of outcomes its
// breaker stays closed, however many there are in a row; then it is left alone
// for two seconds at most.
func TestOnlyWorkerFails(t *testing.T) {
	e := [2]*sim.Engine{startEngine(t, sim.SGLang, sim.Prefill, nil), startEngine(t, sim.SGLang, sim.Decode, nil)}
	cfg := localConfig()
	for i := range e {
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: workers.Role(i), URL: e[i].URL()})
	}
	cfg.Router.Retries.Attempts = 1
	f := &fleet{}
	f.start(t, cfg)
	e[1].Fail(sim.Fault{Kind: sim.FaultStatus, Body: `{"error":{"message":"CUDA error"}}`})
	client := newClient(t)
	ask := func() answered { return sendStep(client, f.base, completion(t, 0, "hello", 2)) }
	for i := range cfg.Health.MinRequests - 1 {
		if a := ask(); a.status != 500 || !strings.Contains(a.body, "CUDA error") && a.code != "decode_upstream_error" {
			t.Fatalf("answer %d = %v, want the engine's 500", i, a.reply)
		}
	}
	f.scraped(t).wantNoBreakers(t)
	ask()
	if got := f.scraped(t).breaker(e[1].URL()); got != 1 {
		t.Errorf("breaker = %v after %d failures, want open", got, cfg.Health.MinRequests)
	}
	if a := ask(); a.status != 503 || a.retryAfter != "1" && a.retryAfter != "2" {
		t.Errorf("answer = %v, Retry-After %q, want 503 and two seconds at most", a.reply, a.retryAfter)
	}
	e[1].ClearFaults()
	cleared := time.Now()
	if !eventually(func() bool { return ask().status == 200 }) {
		t.Fatal("it is not tried again")
	}
	if took := time.Since(cleared); took > 2500*time.Millisecond {
		t.Errorf("it is tried again after %v, want about two seconds at most", took)
	}
	if got := f.scraped(t).breaker(e[1].URL()); got != 0 {
		t.Errorf("breaker = %v after one good trial, want closed: nobody else is there", got)
	}
}
