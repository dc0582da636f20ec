package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"pdrouter/sim"
	"pdrouter/workers"
)

// TestReloadsUnderLoad: whatever changes, no request fails and no stream is cut.
func TestReloadsUnderLoad(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newReloadedFleet(t, dialect)
			c := newCrowd(t, f.base, 8, func(i int) step { return completion(t, i, prompt(i%9, 500), 8) })
			since := func(n int) func() bool {
				return func() bool { return c.seen(func(answered) bool { return true }) >= n }
			}
			policies := []string{"cache_aware", "round_robin", "least_load", "power_of_two", "prefix_hash"}
			var longest time.Duration
			for i := range 20 {
				began := time.Now()
				f.workers(f.prefill[:1+i%2], f.decode[(i+1)%2:])
				f.reload("policy", policies[i%5], "decode-policy", policies[i/5], "log-level", []string{"info", "warn"}[i%2],
					"max-concurrent-requests", fmt.Sprint(5+i%3), "queue-size", fmt.Sprint(100+i), "worker-api-key", fmt.Sprintf("k%d", i/4),
					"max-index-blocks", fmt.Sprint(1000+i), "retry-max-retries", fmt.Sprint(1+i%2), "cors-allowed-origins", []string{"[]", "['*']"}[i%2])
				longest = max(longest, time.Since(began))
				if !eventually(since(20 * (i + 1))) {
					t.Fatal("the clients are not served")
				}
			}
			all := c.disperse()
			wantOutcomes(t, all, wholeAnswer)
			if f.scraped(t).sum("pdrouter_config_reloads_total", `result="ok"`) != 20 {
				t.Error("the metrics do not tell of 20 reloads")
			}
			t.Logf("%d requests, 20 reloads, the longest took %v", len(all), longest)
		})
	}
}

// TestWhatReloads looks, for each kind of setting, at what it does and not at
// what it says.
func TestWhatReloads(t *testing.T) {
	f := newFiledFleet(t, sim.VLLMNixl)
	f.set("admin-port", fmt.Sprint(freePort(t)), "admin-api-key", "zeroth")
	f.begin("queue-size", "77")
	client := newClient(t)
	for _, tt := range []struct {
		name string
		f    func()
	}{
		{"a key is refused after it was taken away", func() {
			f.reload("api-key", "[one, two]")
			f.wantStatus(client, "the first key", 200, "one")
			f.reload("api-key", "[two]")
			f.wantStatus(client, "the first key, taken away", 401, "one")
			f.wantStatus(client, "the second key", 200, "two")
			f.reload("api-key", "")
			f.wantStatus(client, "no key", 200, "")
		}},
		{"a limit holds", func() {
			f.reload("max-payload-size", "10")
			f.wantStatus(client, "a body that is too long", 413, "")
			f.reload("max-payload-size", "", "rate-limit-tokens-per-second", "0.001", "queue-timeout-secs", "0.01")
			f.wantStatus(client, "the first within the rate", 200, "")
			f.wantStatus(client, "one too many", 503, "")
			f.reload("rate-limit-tokens-per-second", "", "queue-timeout-secs", "")
			f.wantStatus(client, "any number", 200, "")
		}},
		{"a worker comes and goes", f.exchangesWorkers},
		{"a policy chooses otherwise", func() {
			f.reload("policy", "passthrough")
			before := shares(f.prefill)
			for range 10 {
				f.wantStatus(client, "any", 200, "")
			}
			if after := shares(f.prefill); after[1] != before[1] || after[0] != before[0]+10 {
				t.Errorf("legs were %v, and are %v; want all of ten on the first", before, after)
			}
			if n := f.scraped(t).sum("smg_worker_selection_total", `policy="passthrough"`); n != 20 {
				t.Errorf("%v choices are counted under the new policy, want 20", n)
			}
			f.reload("policy", "")
		}},
		{"an admin key is refused after it was taken away", func() {
			ask := func(key string) int {
				status, _, err := request(t, http.MethodGet, "http://"+f.adminPort.Addr().String()+"/workers", key, "")
				if err != nil {
					t.Fatal(err)
				}
				return status
			}
			f.reload("admin-api-key", "first")
			before := ask("first")
			f.reload("admin-api-key", "second")
			if now, old := ask("second"), ask("first"); before != 200 || now != 200 || old != 401 {
				t.Errorf("answers = %d, %d with the next key and %d with the one before", before, now, old)
			}
		}},
		{"the log tells more", func() {
			f.reload("log-level", "debug")
			if !f.log.Core().Enabled(zapcore.DebugLevel) {
				t.Error("nothing is logged at debug")
			}
			f.reload("log-level", "error")
			if f.log.Core().Enabled(zapcore.WarnLevel) {
				t.Error("warnings are logged at error")
			}
			f.reload("log-level", "")
		}},
		{"a flag is above the file", func() {
			if done := f.reload("queue-size", "5"); len(done.Settings) != 0 || f.current.Load().Workers.Admission.QueueSize != 77 {
				t.Errorf("changed %v though the command line says otherwise", done.Settings)
			}
			f.reload("queue-size", "")
		}},
		{"what needs a restart is named", func() {
			done := f.reload("port", "1", "health-check-interval-secs", "7", "shutdown-grace-period-secs", "7")
			if names := done.NeedRestart(); !slices.Equal(names, []string{"port", "health-check-interval-secs"}) {
				t.Errorf("a restart is needed for %q", names)
			}
			if lines := f.logs.FilterMessage("settings need a restart: they are as they were").Len(); lines != 1 || f.current.Load().ShutdownGrace != 7*time.Second || f.current.Load().Port != 0 {
				t.Errorf("%d lines tell it; in force is %v and port %d", lines, f.current.Load().ShutdownGrace, f.current.Load().Port)
			}
			f.reload("port", "0", "health-check-interval-secs", "")
		}},
	} {
		t.Run(tt.name, func(*testing.T) { tt.f() })
	}
}

// exchangesWorkers takes a decode worker out of the file and in again, with
// others that the file does not know.
func (f *reloadedFleet) exchangesWorkers() {
	f.t.Helper()
	there := func(want string) {
		f.t.Helper()
		var ids []string
		for _, s := range f.registry.Statuses() {
			ids = append(ids, s.Worker.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			f.t.Errorf("workers are %s, want %s", got, want)
		}
	}
	extra := startEngine(f.t, sim.VLLMNixl, sim.Decode, nil)
	if _, err := f.registry.Add(workers.Spec{Role: workers.Decode, URL: extra.URL()}); err != nil {
		f.t.Fatal(err)
	}
	f.workers(f.prefill, f.decode[:1])
	if done := f.reload(); len(done.Removed) != 1 || done.Removed[0] != "decode "+f.decode[1].URL() {
		f.t.Errorf("removed %q", done.Removed)
	}
	there("prefill-0 prefill-1 decode-0 decode-2")
	f.workers(f.prefill, f.decode)
	f.reload()
	there("prefill-0 prefill-1 decode-0 decode-2 decode-3")
	f.workers(f.prefill, append(f.decode[:2:2], extra)) // the file takes over who was added by the API
	f.reload()
	there("prefill-0 prefill-1 decode-0 decode-2 decode-3")
	f.workers(f.prefill, f.decode)
	f.reload()
	there("prefill-0 prefill-1 decode-0 decode-3")
}

// TestReloadOfDiscovery: the file of workers may be another one, and a worker may
// go from one file to the other.
func TestReloadOfDiscovery(t *testing.T) {
	f := newReloadedFleet(t, sim.VLLMNixl)
	list := filepath.Join(t.TempDir(), "workers.yaml")
	put(t, list, fmt.Sprintf("prefill: [%s]\ndecode: []\n", f.prefill[1].URL()))
	f.workers(f.prefill[:1], f.decode)
	done := f.reload("discovery-provider", "file", "discovery-file", list)
	if len(done.Added)+len(done.Removed)+len(done.Changed) != 0 || len(f.discovery.known) != 1 || len(f.static) != 3 {
		t.Errorf("changed %+v", done)
	}
	put(t, list, "prefill: []\ndecode: []\n")
	gone := func() bool { _, is := f.registry.Get("prefill-1"); return !is }
	if !eventually(gone) {
		t.Error("the file is not watched")
	}
	put(t, list, "prefill: []\n")
	if _, err := f.Reload(); err == nil || !strings.Contains(err.Error(), `no list "decode"`) {
		t.Errorf("reload with a discovery file that has a fault: %v", err)
	}
	f.reload("discovery-provider", "", "discovery-file", "")
	if path, _ := f.discovery.place(); path != "" {
		t.Errorf("%s is still read", path)
	}
}

// TestInvalidReloadChangesNothing, tells each fault, and is seen in the metrics
// and in the status.
func TestInvalidReloadChangesNothing(t *testing.T) {
	f := newReloadedFleet(t, sim.VLLMNixl)
	before := f.current.Load()
	f.set("policy", "random", "queue-size", "many", "quue-size", "3", "api-key", "[k]", "decode", "[http://10.0.0.1:1]")
	_, err := f.Reload()
	for _, want := range []string{`queue-size: "many"`, `unknown key "quue-size"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Reload = %v, does not tell %s", err, want)
		}
	}
	if f.current.Load() != before || len(f.registry.Statuses()) != 4 {
		t.Error("something has changed")
	}
	f.wantStatus(newClient(t), "no key", 200, "")
	page := f.scraped(t)
	if page.sum("pdrouter_config_last_reload_successful") != 0 || page.sum("pdrouter_config_reloads_total", `result="failed"`) != 1 {
		t.Error("the metrics do not tell it")
	}
	if status := f.statusLine(); !strings.Contains(status, "not reloaded at ") {
		t.Errorf("status = %q", status)
	}
	f.workers(f.prefill, f.decode)
	f.reload("queue-size", "", "quue-size", "", "api-key", "")
	if page := f.scraped(t); page.sum("pdrouter_config_last_reload_successful") != 1 || strings.Contains(f.statusLine(), "not reloaded") {
		t.Error("the fault is not forgotten")
	}
}

// TestReloadThatWouldOpenAdmin: what a restart alone can change stays, and what
// is new is judged together with that.
func TestReloadThatWouldOpenAdmin(t *testing.T) {
	f := newFiledFleet(t, sim.VLLMNixl)
	f.set("host", "0.0.0.0", "admin-on-data-listener", "true", "api-key", "[k]")
	f.begin()
	f.set("host", "127.0.0.1", "admin-on-data-listener", "", "api-key", "")
	if err := validOnItsOwn(f.path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Reload(); err == nil || !strings.Contains(err.Error(), "admin-on-data-listener: without a key") {
		t.Errorf("Reload = %v, want what is in force to be refused", err)
	}
	if got := f.current.Load().adminDataAccess(); len(got.Keys) != 1 {
		t.Errorf("the API is open to %+v", got)
	}
}

// validOnItsOwn reports why a daemon would not start with a file.
func validOnItsOwn(path string) error {
	in := newIntake()
	in.file = path
	_, err := in.load()
	return err
}

// TestReloadWhileDraining is refused, and nothing is told to the service manager
// any more.
func TestReloadWhileDraining(t *testing.T) {
	f := newReloadedFleet(t, sim.VLLMNixl)
	f.manager.stop()
	f.set("policy", "random")
	if _, err := f.Reload(); err == nil || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("Reload = %v, want a daemon that is stopping", err)
	}
	if f.current.Load().Policy != "cache_aware" {
		t.Error("it was taken all the same")
	}
}

// TestReloadsAreSerialised: of many at a time each is whole.
func TestReloadsAreSerialised(t *testing.T) {
	f := newReloadedFleet(t, sim.VLLMNixl)
	f.set("policy", "random", "queue-size", "9")
	var wg sync.WaitGroup
	var mu sync.Mutex
	changed := 0
	for range 8 {
		wg.Go(func() {
			done, err := f.Reload()
			mu.Lock()
			defer mu.Unlock()
			changed += len(done.Settings)
			if err != nil {
				t.Errorf("Reload = %v", err)
			}
		})
	}
	wg.Wait()
	if changed != 2 {
		t.Errorf("%d settings have changed, want two, once each", changed)
	}
}
