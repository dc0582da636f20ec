package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"
)

// said returns the lines of the log with that message, each as its fields read.
func (f *fleet) said(message string) []string {
	var lines []string
	for _, e := range f.logs.FilterMessage(message).All() {
		lines = append(lines, fmt.Sprint(e.ContextMap()))
	}
	return lines
}

// barNamed returns the bar of a worker with that cause; the zero Bar if there is
// none.
func (f *fleet) barNamed(id string, c workers.Cause) workers.Bar {
	s, _ := f.registry.Get(id)
	for _, b := range s.Bars {
		if b.Cause == c {
			return b
		}
	}
	return workers.Bar{}
}

// TestCanariesOfAnIdleFleet: pairs without traffic are tried, nobody sees it,
// and one that is broken gets no client.
func TestCanariesOfAnIdleFleet(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: dialect, config: func(c *Config) {
				c.Health.CanaryInterval, c.Health.FailureThreshold = 20*time.Millisecond, 2
			}})
			metric := func(family string, labels ...string) float64 {
				return scrape(t, f.scrape.Addr().String()).sum(family, labels...)
			}
			if !eventually(func() bool { return metric("pdrouter_canaries_total", `result="ok"`) >= 8 }) {
				t.Fatalf("%v canaries got their token", metric("pdrouter_canaries_total", `result="ok"`))
			}
			for _, e := range f.engines() {
				if n := e.Stats().TotalRequests; n < 2 {
					t.Errorf("%s has had %d requests, want canaries through all pairs", e.URL(), n)
				}
			}
			for _, family := range []string{"smg_http_requests_total", "smg_router_requests_total", "smg_router_tokens_total", "pdrouter_legs_total", "smg_pd_kv_connector_mode_total"} {
				if n := metric(family); n > 0 {
					t.Errorf("%s = %v without a client", family, n)
				}
			}
			f.decode[0].Fail(sim.Fault{Kind: sim.FaultStatus, Status: 500, Body: `{"message":"Internal server error"}`})
			if !eventually(func() bool {
				return len(f.said("pair canary failing")) == 2 && f.barNamed("decode-0", workers.Breaking).Reason != ""
			}) {
				t.Fatalf("canaries told %q, breakers %q", f.said("pair canary failing"), f.said("worker breaker open"))
			}
			client := newClient(t)
			for i := range 8 {
				complete(t, client, f.base, prompt(i, 500), 4)
			}
			if n := metric("smg_worker_retries_total"); n > 0 {
				t.Errorf("%v requests of clients found the broken pair", n)
			}
		})
	}
}

// TestBootstrapServerThatHangs: a prefill engine that is well in all else gets
// nothing it could not hand over.
func TestBootstrapServerThatHangs(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	port := mute.Addr().(*net.TCPAddr).Port
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) {
		c.Health.ProbeInterval, c.Health.ProbeTimeout = 20*time.Millisecond, 100*time.Millisecond
		c.Workers.Specs[0].BootstrapPort = port
	}})
	if !eventually(func() bool { return f.barNamed("prefill-0", workers.Probing).Reason != "" }) {
		t.Fatal("it is not barred")
	}
	if got, at := f.barNamed("prefill-0", workers.Probing).Reason, fmt.Sprint("127.0.0.1:", port); !strings.Contains(got, "bootstrap server "+at) {
		t.Errorf("the reason is %q, want one that names %s", got, at)
	}
	client := newClient(t)
	for i := range 8 {
		complete(t, client, f.base, prompt(i, 500), 2)
	}
	if got := shares(f.prefill); got[0] != 0 || got[1] != 8 {
		t.Errorf("the prefill engines have had %d requests, want none and 8", got)
	}
	if bar := f.barNamed("prefill-1", workers.Probing); bar.Reason != "" {
		t.Errorf("the other one is barred: %s", bar.Reason)
	}
}

// TestEnginesThatDoNotFit: what keeps them apart is said at the start, with both
// names and both values, and to clients without names.
func TestEnginesThatDoNotFit(t *testing.T) {
	decodes := 0
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, engine: func(c *sim.Config) {
		if c.Role == sim.Decode {
			c.BlockSize = 64
			decodes++
		}
	}})
	if !eventually(func() bool { return len(f.said("workers do not fit one another")) >= decodes }) {
		t.Fatalf("it is said %d times, want once for each of %d", len(f.said("workers do not fit one another")), decodes)
	}
	// Which two are named first goes by who was looked at first.
	one := func(line string, of []*sim.Engine) bool {
		return slices.ContainsFunc(of, func(e *sim.Engine) bool { return strings.Contains(line, "("+e.URL()+")") })
	}
	for _, line := range f.said("workers do not fit one another") {
		if !strings.Contains(line, "page size 128 and 64") || !strings.Contains(line, "prefill-") || !strings.Contains(line, "decode-") ||
			!one(line, f.prefill) || !one(line, f.decode) {
			t.Errorf("the log says %s, want the page sizes and both workers with their URLs", line)
		}
	}
	status, body := post(t, newClient(t), f.base+"/v1/completions", `{"model":"sim-model","prompt":"a"}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "fit one another (page size 128 and 64)") || strings.Contains(body, "http://") {
		t.Errorf("answer = %d %s", status, body)
	}
}

// TestRoleThatIsStarting: when no worker of a role may be asked, the client is
// told at once when to come again.
func TestRoleThatIsStarting(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.VLLMNixl, via: func(e *sim.Engine) string {
		e.Fail(sim.Fault{Kind: sim.FaultStatus, Status: 503, Path: "/health"})
		return e.URL()
	}})
	if !eventually(func() bool {
		return f.barNamed("prefill-0", workers.Probing).Reason != "" && f.barNamed("prefill-1", workers.Probing).Reason != ""
	}) {
		t.Fatal("they are not barred")
	}
	began := time.Now()
	status, body := post(t, newClient(t), f.base+"/v1/completions", `{"model":"sim-model","prompt":"a"}`)
	if took := time.Since(began); status != http.StatusServiceUnavailable || !strings.Contains(body, "every prefill worker is left out for now (probes)") || took > time.Second {
		t.Errorf("answer = %d %s after %v", status, body, took)
	}
}

// TestStoppedEngine stops the process of an engine: the kernel still accepts
// connections for it, and nothing answers. Its reports are missed, without a
// probe and without a request that had to wait for it.
func TestStoppedEngine(t *testing.T) {
	cfg := localConfig()
	cfg.Health.DisableProbes = true
	cfg.Health.StaleTime = 500 * time.Millisecond
	cfg.Workers.ProbeTimeout, cfg.Workers.LoadInterval = 200*time.Millisecond, 50*time.Millisecond
	var engines []*exec.Cmd
	for _, role := range []workers.Role{workers.Prefill, workers.Decode, workers.Decode} {
		p, url, _ := startSim(t, "--dialect", "vllm-nixl", "--role", role.String())
		engines = append(engines, p)
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: role, URL: url})
	}
	stopped := engines[1]
	f := &fleet{}
	f.start(t, cfg)
	reported := func(id string) func() bool {
		return func() bool {
			s, _ := f.registry.Get(id)
			return time.Since(s.Report.At) < time.Second
		}
	}
	for _, id := range []string{"decode-0", "decode-1"} {
		if !eventually(reported(id)) {
			t.Fatalf("%s gives no report", id)
		}
	}
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if !eventually(func() bool { return f.barNamed("decode-0", workers.Stalled).Reason != "" }) {
		t.Fatal("it is not barred")
	}
	if took := time.Since(began); took < cfg.Health.StaleTime/2 || took > 5*time.Second {
		t.Errorf("it was barred after %v, want soon after %v", took, cfg.Health.StaleTime)
	}
	client := newClient(t)
	for i := range 6 {
		began := time.Now()
		complete(t, client, f.base, prompt(i, 200), 2)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("an answer took %v", took)
		}
	}
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return f.barNamed("decode-0", workers.Stalled).Reason == "" }) {
		t.Error("it is barred, though it goes on")
	}
	for _, p := range engines {
		terminate(t, p)
	}
}
