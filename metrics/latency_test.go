package metrics

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestBoundsAscend(t *testing.T) {
	for i, bounds := range [][]float64{firstBounds(), gapBounds(), handOffBounds(), decodeBounds()} {
		if !slices.IsSorted(bounds) || len(slices.Compact(slices.Clone(bounds))) != len(bounds) {
			t.Errorf("bounds %d are %v", i, bounds)
		}
	}
}

// member returns a histogram of a family, the only one or the first.
func member(t *testing.T, reg *prometheus.Registry, name string) *dto.Histogram {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetHistogram()
		}
	}
	t.Fatalf("%s has no series", name)
	return nil
}

// TestHistogramsAreOfBothForms: the native form is bounded, whatever is observed.
func TestHistogramsAreOfBothForms(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := New(reg, DefaultConfig()).Work("m", "chat", "sglang", true)
	random := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		w.Gap(time.Duration(1) << random.IntN(62))
	}
	h := member(t, reg, "pdrouter_inter_token_seconds")
	if h.GetSampleCount() != 5000 || len(h.GetBucket()) != len(gapBounds()) {
		t.Errorf("%d gaps in %d classic buckets", h.GetSampleCount(), len(h.GetBucket()))
	}
	if n := len(h.GetPositiveDelta()); n == 0 || n > nativeMost {
		t.Errorf("%d native buckets, want some, at most %d", n, nativeMost)
	}
}

func TestOneRequestWitnessesEachBucketOncePerSecond(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := New(reg, DefaultConfig()).Work("m", "chat", "sglang", true)
	start := time.Unix(1000, 0)
	for _, r := range []struct {
		after, took time.Duration
		id          string
	}{
		{0, 110 * time.Millisecond, "first"},
		{900 * time.Millisecond, 120 * time.Millisecond, "in-the-same-second"},
		{900 * time.Millisecond, time.Hour, "slow"},
		{time.Second, 130 * time.Millisecond, "in-the-next"},
		{2 * time.Second, 130 * time.Millisecond, strings.Repeat("l", maxWitness+1)},
		{2 * time.Second, 220 * time.Millisecond, strings.Repeat("l", maxWitness)},
		{3 * time.Second, 220 * time.Millisecond, ""},
	} {
		w.Begins(start.Add(r.after), r.took, r.id)
	}
	got := map[float64]string{}
	h := member(t, reg, "pdrouter_ttft_seconds")
	for _, b := range h.GetBucket() {
		if x := b.GetExemplar(); x != nil {
			got[b.GetUpperBound()] = x.GetLabel()[0].GetName() + "=" + x.GetLabel()[0].GetValue()
		}
	}
	want := map[float64]string{0.15: "request_id=in-the-next", 0.25: "request_id=" + strings.Repeat("l", maxWitness), math.Inf(1): "request_id=slow"}
	if !maps.Equal(got, want) {
		t.Errorf("exemplars are %v, want %v", got, want)
	}
	if h.GetSampleCount() != 7 {
		t.Errorf("%d are counted, want 7", h.GetSampleCount())
	}
	w.Prefilled(start, time.Second, "p")
	if len(member(t, reg, "pdrouter_prefill_seconds").GetExemplars()) != 1 {
		t.Error("a prefill leg has no exemplar")
	}
}

// TestExemplarsAreScraped: the handler speaks OpenMetrics, and a client's word for
// its request cannot break the page.
func TestExemplarsAreScraped(t *testing.T) {
	m, reg := quiet(oneWorker)
	m.Work("m", "chat", "sglang", true).Begins(time.Unix(1000, 0), time.Second, `a"b\c}#`)
	rec := fetch(t, m.Handler(reg, nil), "/metrics", "Accept", "application/openmetrics-text;version=1.0.0")
	if want := `le="1.0"} 1 # {request_id="a\"b\\c}#"} 1.0`; !strings.Contains(rec.Body.String(), want) {
		t.Errorf("the page lacks %s", want)
	}
}

func TestSeriesOfModelsAreThereAtOnceAndBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg, DefaultConfig())
	m.Serve("m", "sglang")
	for _, name := range []string{"pdrouter_ttft_seconds", "pdrouter_inter_token_seconds", "pdrouter_prefill_seconds", "pdrouter_handoff_wait_seconds", "pdrouter_decode_seconds"} {
		if h := member(t, reg, name); h.GetSampleCount() != 0 || h.Schema == nil {
			t.Errorf("%s is %v before any request", name, h)
		}
	}
	for i := range mostModels + 100 {
		name := fmt.Sprint("adapter-", i)
		m.Serve(name, "sglang")
		m.Work(name, "chat", "sglang", true).Gap(time.Second)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		models, others := map[string]bool{}, uint64(0)
		for _, series := range family.GetMetric() {
			for _, l := range series.GetLabel() {
				if l.GetName() == "model" {
					models[l.GetValue()] = true
				}
				if l.GetValue() == otherModel {
					others += series.GetHistogram().GetSampleCount()
				}
			}
		}
		if len(models) > mostModels+1 {
			t.Errorf("%s has series for %d models, want %d and %s", family.GetName(), len(models), mostModels, otherModel)
		}
		if family.GetName() == "pdrouter_inter_token_seconds" && others != 101 {
			t.Errorf("%d gaps are those of %s", others, otherModel)
		}
	}
}

func TestTimingDoesNotAllocate(t *testing.T) {
	w := New(prometheus.NewRegistry(), DefaultConfig()).Work("m", "chat", "sglang", true)
	now := time.Now()
	one := func() {
		w.Begins(now, time.Second, "req-a")
		w.Prefilled(now, time.Second, "req-a")
		w.HandedOff(time.Second)
		w.Gap(time.Second)
		w.Decoded(time.Second)
	}
	one()
	if n := testing.AllocsPerRun(100, one); n != 0 {
		t.Errorf("timing a request makes %v allocations, want 0", n)
	}
}

// BenchmarkGap is what each read of a stream pays, beside what it would be without
// the native form.
func BenchmarkGap(b *testing.B) {
	gaps := make([]float64, 1024)
	for i := range gaps {
		gaps[i] = (0.5 + rand.ExpFloat64()) * 0.02
	}
	classic := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "x", Buckets: gapBounds()})
	for _, kind := range []struct {
		name string
		to   prometheus.Observer
	}{
		{"classic", classic}, {"both", both("x", "x", gapBounds()).WithLabelValues()},
	} {
		b.Run(kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				kind.to.Observe(gaps[i%1024])
			}
		})
		b.Run(kind.name+"-parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					kind.to.Observe(gaps[i%1024])
				}
			})
		})
	}
}

// BenchmarkBegins is what the TTFT of a request costs: with an exemplar once a
// second, and with one each time.
func BenchmarkBegins(b *testing.B) {
	w := New(prometheus.NewRegistry(), DefaultConfig()).Work("m", "chat", "sglang", true)
	for name, step := range map[string]time.Duration{"once-a-second": 0, "always": time.Second} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for now := time.Now(); b.Loop(); now = now.Add(step) {
				w.Begins(now, 200*time.Millisecond, "req-ABCDEFGHIJKLMNOPQRSTUVWX")
			}
		})
	}
}
