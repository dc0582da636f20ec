package metrics

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

// families returns all families of ours that have a series after traffic of all
// kinds, sorted.
func families(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	all, err := gathered(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A theirs is what smg says of a family.
type theirs struct{ kind, labels, bounds string }

// smgFamilies returns what was scraped from smg 1.13 under PD traffic, by name.
func smgFamilies(t *testing.T) map[string]theirs {
	t.Helper()
	text, err := os.ReadFile("testdata/smg-1.13-families.tsv")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]theirs{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 4 && !strings.HasPrefix(line, "#") {
			all[f[0]] = theirs{f[1], strings.Trim(f[2], "-"), strings.Trim(f[3], "-")}
		}
	}
	return all
}

// labelsOf returns the names of a family's labels, as smgFamilies has them.
func labelsOf(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// boundsOf returns a family's buckets, likewise.
func boundsOf(f *dto.MetricFamily) string {
	h := f.GetMetric()[0].GetHistogram()
	if h == nil {
		return ""
	}
	var bounds []string
	for _, b := range h.GetBucket() {
		bounds = append(bounds, fmt.Sprint(b.GetUpperBound()))
	}
	return strings.Join(append(bounds, "+Inf"), ",")
}

// TestSMGFamilies compares the families that are smg's and ours with what was
// scraped from smg 1.13: type, labels and buckets. The buckets of durations are
// those of the configuration; cmd compares them.
func TestSMGFamilies(t *testing.T) {
	all := smgFamilies(t)
	shared := 0
	for _, f := range families(t) {
		want, ok := all[f.GetName()]
		if !ok {
			continue
		}
		shared++
		got := theirs{strings.ToLower(f.GetType().String()), labelsOf(f), boundsOf(f)}
		if strings.HasSuffix(f.GetName(), "duration_seconds") || strings.HasSuffix(f.GetName(), "ttft_seconds") {
			got.bounds = want.bounds
		}
		if got != want {
			t.Errorf("%s is %+v, smg's is %+v", f.GetName(), got, want)
		}
	}
	if shared < 30 {
		t.Errorf("only %d families are shared with smg", shared)
	}
}

// TestNamesPassPromlint: what Prometheus' linter says of smg's names is known,
// of ours there is nothing to say.
func TestNamesPassPromlint(t *testing.T) {
	problems, err := testutil.GatherAndLint(gathered(t))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{
		"smg_engine_pd_kv_transfer_latency_ms": "milliseconds, where seconds are the rule; GB as a part of a name",
		"smg_engine_pd_kv_transfer_speed_gb_s": "abbreviations",
		"smg_http_inflight_request_age_count":  "a gauge with the ending of a histogram's count",
	}
	seen := map[string]bool{}
	for _, p := range problems {
		seen[p.Metric] = true
		if known[p.Metric] == "" {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for name := range known {
		if !seen[name] {
			t.Errorf("there is nothing to say of %s any more", name)
		}
	}
}
