package metrics

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// fetch asks h for a page.
func fetch(t *testing.T, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// quiet returns Metrics of a daemon that has one worker and did nothing.
func quiet(workers func() []WorkerState) (*Metrics, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	m := New(reg, DefaultConfig())
	m.WatchState(reg, State{
		Ages: func() []time.Duration { return nil }, Crowd: func() Crowd { return Crowd{} },
		BufferedBytes: func() int64 { return 0 }, RetryBudget: func() float64 { return 0 }, Workers: workers,
	})
	return m, reg
}

func oneWorker() []WorkerState {
	return []WorkerState{{URL: "http://p0", Role: "prefill", Space: UnknownSpace(), Engine: UnknownEngine()}}
}

func TestScrapersGetTheFormTheyAskFor(t *testing.T) {
	m, reg := quiet(oneWorker)
	latency := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pdrouter_test_seconds", Help: "A test.", Buckets: []float64{1}, NativeHistogramBucketFactor: 1.1})
	reg.MustRegister(latency)
	latency.(prometheus.ExemplarObserver).ObserveWithExemplar(0.5, prometheus.Labels{"request_id": "r-1"})
	h := m.Handler(reg, nil)
	for name, tt := range map[string]struct{ accept, kind, has string }{
		"text":              {"", "text/plain", "pdrouter_worker_draining{"},
		"OpenMetrics":       {"application/openmetrics-text; version=1.0.0", "application/openmetrics-text", `request_id="r-1"`},
		"a protocol buffer": {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "application/vnd.google.protobuf", "pdrouter_test_seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := fetch(t, h, "/metrics", "Accept", tt.accept, "Accept-Encoding", "gzip")
			if kind := rec.Header().Get("Content-Type"); rec.Code != http.StatusOK || !strings.HasPrefix(kind, tt.kind) || rec.Header().Get("Content-Encoding") != "gzip" {
				t.Fatalf("%d %v, want %s with gzip", rec.Code, rec.Header(), tt.kind)
			}
			plain, err := gzip.NewReader(rec.Body)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(plain)
			if err != nil || !strings.Contains(string(body), tt.has) {
				t.Errorf("%v; the page has no %s", err, tt.has)
			}
			if name == "a protocol buffer" && !hasNative(t, string(body), rec.Header()) {
				t.Error("there is no native histogram")
			}
		})
	}
}

// hasNative reports whether a page has a native histogram.
func hasNative(t *testing.T, body string, header http.Header) bool {
	t.Helper()
	pages := expfmt.NewDecoder(strings.NewReader(body), expfmt.ResponseFormat(header))
	for {
		var f dto.MetricFamily
		if err := pages.Decode(&f); err != nil {
			t.Fatalf("no histogram of the test: %v", err)
		}
		if f.GetName() == "pdrouter_test_seconds" {
			return len(f.GetMetric()[0].GetHistogram().GetPositiveSpan()) > 0
		}
	}
}

// What one collector cannot tell is no reason not to tell the rest.
func TestABrokenCollectorLosesOnlyItsOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		workers func() []WorkerState
		breaks  bool
		lost    string
	}{
		"a collector":                {oneWorker, true, "smg_worker_cb_state"},
		"what is told of the worker": {func() []WorkerState { panic("no workers") }, false, "smg_worker_health"},
	} {
		t.Run(name, func(t *testing.T) {
			m, reg := quiet(tt.workers)
			WatchBreakers(reg, func() Breakers {
				if tt.breaks {
					panic("no breakers")
				}
				return Breakers{Workers: []WorkerBreaker{{Worker: "http://p0"}}}
			})
			var said faults
			rec := fetch(t, m.Handler(reg, &said), "/metrics")
			body := rec.Body.String()
			if rec.Code != http.StatusOK || strings.Contains(body, tt.lost+"{") || !strings.Contains(body, "pdrouter_retry_budget 0") {
				t.Errorf("%d, want a page without %s\n%s", rec.Code, tt.lost, body)
			}
			if strings.Contains(body, "smg_worker_health{") == strings.Contains(body, "smg_worker_cb_state{") {
				t.Error("want one of the two, and not both")
			}
			if said != 1 {
				t.Errorf("%d faults were said, want 1", said)
			}
		})
	}
}

// faults counts what it is told.
type faults int

func (f *faults) Println(...any) { *f++ }

func TestScrapesAreBounded(t *testing.T) {
	wait, asked := make(chan struct{}), make(chan struct{}, 1)
	m, reg := quiet(func() []WorkerState {
		asked <- struct{}{}
		<-wait
		return oneWorker()
	})
	h := m.Handler(reg, nil)
	codes := make(chan int, mostScrapes+1)
	for range mostScrapes + 1 {
		go func() { codes <- fetch(t, h, "/metrics").Code }()
	}
	<-asked
	if code := <-codes; code != http.StatusServiceUnavailable { // the others cannot end yet
		t.Errorf("one page too many is a %d, want 503", code)
	}
	close(wait)
	for range mostScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a page that waited is a %d, want 200", code)
		}
	}
}

func TestModelsAreCapped(t *testing.T) {
	m := &modelNames{seen: map[string]bool{}}
	for i := range mostModels {
		if name := strings.Repeat("m", i+1); m.label(name) != name {
			t.Fatalf("model %d is called %s", i, m.label(name))
		}
	}
	if got := m.label("one more"); got != otherModel {
		t.Errorf("label = %s, want %s", got, otherModel)
	}
	if got := m.label("mm"); got != "mm" {
		t.Errorf("label = %s, want mm", got)
	}
}
