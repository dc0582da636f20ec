package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"pdrouter/sim"
)

// A realPrometheus runs in a process of its own and scrapes a fleet's
// router five times a second.
type realPrometheus struct {
	client *http.Client
	base   string
}

// startPrometheus runs one until the test ends.
func startPrometheus(t *testing.T, target string) realPrometheus {
	t.Helper()
	return runPrometheus(t, fmt.Sprintf("global: {scrape_interval: 200ms}\nscrape_configs:\n- job_name: pdrouter\n  static_configs: [{targets: [%q]}]\n", target))
}

// debian returns where a program of Debian's Prometheus is.
func debian(t *testing.T, program string) string {
	t.Helper()
	path, err := filepath.Abs("../../.cache/prometheus/usr/bin/" + program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		missing(t, program+" is missing: run `make e2e-setup`")
	}
	return path
}

// runPrometheus runs one with that configuration until the test ends.
func runPrometheus(t *testing.T, config string) realPrometheus {
	t.Helper()
	program := debian(t, "prometheus")
	dir := t.TempDir()
	cfg := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(cfg, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+cfg, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=error")
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
	})
	return realPrometheus{newClient(t), "http://" + addr}
}

// A sample is one of the values of a query's result.
type sample struct {
	labels map[string]string
	value  float64
}

// byWorker asks for a query's result; nil while there is none.
func (p realPrometheus) byWorker(t *testing.T, query string) map[string]float64 {
	t.Helper()
	all, ok := p.ask(t, query)
	if !ok {
		return nil
	}
	found := map[string]float64{}
	for _, s := range all {
		found[s.labels["worker"]] = s.value
	}
	return found
}

// ask asks for a query's result, a vector; it is not ok while Prometheus starts.
func (p realPrometheus) ask(t *testing.T, query string) (all []sample, ok bool) {
	t.Helper()
	resp, err := p.client.Get(p.base + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return nil, false // it is starting
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any // when, and what as a string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil && resp.StatusCode == http.StatusOK {
		t.Fatal(err)
	}
	if answer.Error != "" {
		t.Fatalf("%s: %s", query, answer.Error)
	}
	for _, r := range answer.Data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sample{r.Metric, value})
	}
	return all, resp.StatusCode == http.StatusOK
}

// An activeAlert is an alert as Prometheus tells it.
type activeAlert struct {
	Labels, Annotations map[string]string
	State               string
}

// alerts returns those that are active.
func (p realPrometheus) alerts(t *testing.T) []activeAlert {
	t.Helper()
	resp, err := p.client.Get(p.base + "/api/v1/alerts")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct{ Alerts []activeAlert }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.Data.Alerts
}

// What the README tells an operator to ask shows, after six times the same
// prompt, one worker of which the hits rise, and all others at zero. With vLLM
// it is one of each role: its decode engines keep prompts too.
func TestPrometheusShowsOneWorkerRise(t *testing.T) {
	const size, tokens, times = 8192, 8192 / 4, 6
	const query = "sum by (worker) (increase(" + prefixHits + "[5m]) >= 0)"
	for dialect, want := range map[string][]int{sim.SGLang: {1, 0}, sim.VLLMNixl: {1, 1}} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: dialect, engine: computes})
			p, client := startPrometheus(t, f.scrape.Addr().String()), newClient(t)
			var rise map[string]float64
			known := func() bool { rise = p.byWorker(t, query); return len(rise) == len(f.engines()) }
			for tries := 0; !eventually(known); tries++ { // it starts slowly on a busy machine
				if tries == 3 {
					t.Fatalf("before any request %s = %v, want all workers", query, rise)
				}
			}
			for range times {
				complete(t, client, f.base, prompt(7, size), 4)
			}
			const least = (times - 1) * (tokens - 128) // a block of each is computed anew
			var rising []int
			if !eventually(func() bool {
				looked := 0.0
				for _, n := range p.byWorker(t, prefixQueries+`{role="prefill"}`) {
					looked += n
				}
				rise = p.byWorker(t, query)
				rising = []int{above(rise, f.prefill), above(rise, f.decode)}
				return looked >= times*tokens && rising[0] >= want[0] && rising[1] >= want[1]
			}) {
				t.Fatalf("%s = %v, want some above 0", query, rise)
			}
			t.Logf("%s = %v", query, rise)
			if !slices.Equal(rising, want) {
				t.Errorf("%s = %v, above 0 for %v workers of prefill and decode, want %v", query, rise, rising, want)
			}
			for worker, n := range rise {
				if n != 0 && n < least {
					t.Errorf("%s of %s = %v, want 0 or %v at least", query, worker, n, least)
				}
			}
		})
	}
}

// above returns how many of engines have more than nothing.
func above(rise map[string]float64, engines []*sim.Engine) (n int) {
	for _, e := range engines {
		if rise[e.URL()] > 0 {
			n++
		}
	}
	return n
}
