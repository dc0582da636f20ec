package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pdrouter/sim"
	"pdrouter/workers"
)

const (
	// mostSeries is how many series a router of 128 workers may have, and
	// mostScrape what a scrape of them may cost, in CPU.
	mostSeries = 15000
	mostScrape = 20 * time.Millisecond
)

// manyWorkers runs a router before so many engines of either role, each of which
// has had requests.
func manyWorkers(t testing.TB, each int) *fleet {
	t.Helper()
	cfg := localConfig()
	cfg.Workers.LoadInterval, cfg.Health.DisableProbes = 5*time.Second, true // little else is to use the CPU
	cfg.PrefillPolicy, cfg.DecodePolicy = "cache_aware", "cache_aware"
	f := &fleet{}
	for i := range 2 * each {
		role := [...]string{sim.Prefill, sim.Decode}[i/each]
		e := startEngine(t, sim.SGLang, role, nil)
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: workers.Role(i / each), URL: e.URL()})
	}
	f.start(t, cfg)
	all := func(so func(workers.Status) bool) bool {
		return eventually(func() bool {
			for _, s := range f.registry.Statuses() {
				if !so(s) {
					return false
				}
			}
			return true
		})
	}
	if !all(func(s workers.Status) bool { return s.State == workers.Ready && !s.Report.At.IsZero() }) {
		t.Fatal("not all engines have been read")
	}
	var g sync.WaitGroup
	for i := range 8 * each {
		g.Go(func() {
			resp, err := http.Post(f.base+"/generate", "application/json", strings.NewReader(`{"text":"`+prompt(i, 2048)+`","sampling_params":{"max_new_tokens":2}}`))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	g.Wait()
	return f
}

// cpu returns how much CPU this process has used.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestManyWorkersAreScrapedCheaply(t *testing.T) {
	each := 64
	if raced {
		each = 8 // it takes too long to begin
	}
	f := manyWorkers(t, each)
	h := f.met.Handler(f.collected, nil)
	scrape := func(w http.ResponseWriter) { h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil)) }
	page := httptest.NewRecorder()
	scrape(page)
	series := 0
	for line := range strings.Lines(page.Body.String()) {
		if line[0] != '#' {
			series++
		}
	}
	if series > mostSeries {
		t.Errorf("%d series of %d workers, want %d at most", series, 2*each, mostSeries)
	}
	const scrapes = 20
	least := time.Hour
	rounds := 8
	if raced {
		rounds = 1
	}
	for range rounds {
		before := cpu(t)
		for range scrapes {
			scrape(nowhere{})
		}
		least = min(least, (cpu(t)-before)/scrapes)
	}
	t.Logf("%d series, %v of CPU for a scrape", series, least)
	if !raced && least > mostScrape {
		t.Errorf("a scrape takes %v of CPU, want %v at most", least, mostScrape)
	}
}

// nowhere is a client that reads nothing.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
