package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"pdrouter/sim"
)

// rare are families of smg's that have no series before something special
// happens.
func rare() []string {
	return []string{
		"smg_worker_retries_total", "smg_worker_retries_exhausted_total", "smg_worker_retry_backoff_seconds",
	}
}

// What the router exports under traffic is compared with what smg 1.13 did:
// names, types, labels and buckets.
func TestSMGFamiliesUnderTraffic(t *testing.T) {
	theirs := smgFamilies(t)
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: dialect, config: func(c *Config) { c.Workers.LoadInterval = 20 * time.Millisecond }})
			wantChat(t, newClient(t), f.base, 1)
			f.read(t, nil, 1)
			all, err := f.met.Gatherer(f.collected).Gather()
			if err != nil {
				t.Fatal(err)
			}
			there := map[string]bool{}
			for _, family := range all {
				there[family.GetName()] = true
				want, ok := theirs[family.GetName()]
				if got := familyOf(family); ok && got != want {
					t.Errorf("%s is %v, smg's is %v", family.GetName(), got, want)
				}
				if strings.HasPrefix(family.GetName(), "smg_") && !strings.Contains(string(page), "| `"+family.GetName()+"` |") {
					t.Errorf("docs/metrics.md has no %s", family.GetName())
				}
			}
			for name := range theirs {
				ours := strings.Contains(string(page), "| `"+name+"` |")
				if ours && !there[name] && !slices.Contains(rare(), name) {
					t.Errorf("%s has no series after traffic", name)
				}
			}
		})
	}
}

// smgFamilies returns type, labels and buckets of smg's families by name.
func smgFamilies(t *testing.T) map[string][3]string {
	t.Helper()
	text, err := os.ReadFile("../../metrics/testdata/smg-1.13-families.tsv")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][3]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 4 && line[0] != '#' {
			all[f[0]] = [3]string{f[1], strings.Trim(f[2], "-"), strings.Trim(f[3], "-")}
		}
	}
	return all
}

// familyOf returns those of a family of ours.
func familyOf(f *dto.MetricFamily) [3]string {
	first := f.GetMetric()[0]
	var labels, bounds []string
	for _, l := range first.GetLabel() {
		labels = append(labels, l.GetName())
	}
	slices.Sort(labels)
	if h := first.GetHistogram(); h != nil {
		for _, b := range h.GetBucket() {
			bounds = append(bounds, fmt.Sprint(b.GetUpperBound()))
		}
		bounds = append(bounds, "+Inf")
	}
	return [3]string{strings.ToLower(f.GetType().String()), strings.Join(labels, ","), strings.Join(bounds, ",")}
}

// Prometheus' linter has nothing to say of the whole page but of names that are
// smg's.
func TestTheWholePagePassesPromlint(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang})
	wantChat(t, newClient(t), f.base, 1)
	f.scraped(t) // so that the handler has series of its own
	problems, err := testutil.GatherAndLint(f.met.Gatherer(f.collected))
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"smg_engine_pd_kv_transfer_latency_ms", "smg_engine_pd_kv_transfer_speed_gb_s", "smg_http_inflight_request_age_count"}
	for _, p := range problems {
		if !slices.Contains(known, p.Metric) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
