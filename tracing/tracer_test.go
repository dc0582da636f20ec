package tracing

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/record"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
)

// A running is a Tracer whose Run has been called.
type running struct {
	*Tracer
	stop func() // and wait

	mu     sync.Mutex
	events []Event
}

func run(t *testing.T, endpoint string, grace time.Duration) *running {
	t.Helper()
	r := &running{}
	tracer, err := New(Config{Enabled: true, Endpoint: endpoint, Ratio: 1}, Service{}, func(e Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	tracer.pause = time.Millisecond
	r.Tracer = tracer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tracer.Run(ctx, grace)
	}()
	r.stop = func() { cancel(); <-ended }
	t.Cleanup(r.stop)
	return r
}

// finish has so many requests traced.
func (r *running) finish(n int) {
	v := retried()
	for range n {
		tr := r.Begin("", "")
		f := r.Ending(&tr)
		f.View = *v
		r.Send(f)
	}
}

func (r *running) kinds() (kinds []Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func wait(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !so(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
	}
}

// both runs a test with a collector of either protocol.
func both(t *testing.T, test func(t *testing.T, c *testCollector)) {
	for name, grpc := range map[string]bool{"HTTP": false, "gRPC": true} {
		t.Run(name, func(t *testing.T) { test(t, newCollector(t, grpc)) })
	}
}

func TestTracesReachTheCollector(t *testing.T) {
	both(t, func(t *testing.T, c *testCollector) {
		r := run(t, c.endpoint, time.Minute)
		r.finish(300) // more than one batch
		wait(t, "the first of them", func() bool { return c.traces() > 0 })
		r.stop()
		if n := c.traces(); n != 300 {
			t.Errorf("%d traces came, want 300", n)
		}
		if got := r.Counts(); got != (Counts{Sent: 300}) || len(r.kinds()) != 0 {
			t.Errorf("counted %+v, told %v", got, r.kinds())
		}
		if c.tries < 2 || c.tries > 20 {
			t.Errorf("%d batches", c.tries)
		}
	})
}

func TestWhatIsLeftIsSentAtTheEnd(t *testing.T) {
	both(t, func(t *testing.T, c *testCollector) {
		r := run(t, c.endpoint, time.Minute)
		r.finish(3)
		r.stop() // before the batch is old enough
		if n := c.traces(); n != 3 {
			t.Errorf("%d traces came, want 3", n)
		}
	})
}

func TestABatchIsSentAgain(t *testing.T) {
	both(t, func(t *testing.T, c *testCollector) {
		c.refuse = func(try int, w http.ResponseWriter) bool {
			if try <= 2 {
				c.status(w, http.StatusServiceUnavailable, "14")
			}
			return try <= 2
		}
		r := run(t, c.endpoint, time.Minute)
		r.finish(5)
		wait(t, "them", func() bool { return r.Counts().Sent == 5 })
		if got := r.kinds(); len(got) != 2 || got[0] != Away || got[1] != Back {
			t.Errorf("told %v", got)
		}
		if n := c.traces(); n != 5 {
			t.Errorf("%d traces came, want 5", n)
		}
	})
}

func TestABatchThatIsRefusedForGood(t *testing.T) {
	both(t, func(t *testing.T, c *testCollector) {
		c.refuse = func(_ int, w http.ResponseWriter) bool {
			c.status(w, http.StatusUnauthorized, "16")
			return true
		}
		r := run(t, c.endpoint, time.Minute)
		r.finish(5)
		wait(t, "them to be lost", func() bool { return r.Counts().Failed == 5 })
		r.finish(2)
		r.stop()
		if got := r.Counts(); got != (Counts{Failed: 7}) || c.tries != 2 {
			t.Errorf("counted %+v in %d tries, want 7 failed in 2", got, c.tries)
		}
		if len(r.kinds()) != 1 || !strings.Contains(r.events[0].Err.Error(), map[bool]string{true: "gRPC status 16: later", false: "HTTP status 401"}[c.grpc]) {
			t.Errorf("told %v", r.events)
		}
	})
}

func TestSomeSpansAreRejected(t *testing.T) {
	both(t, func(t *testing.T, c *testCollector) {
		c.reply = &collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too old"}}
		r := run(t, c.endpoint, time.Minute)
		r.finish(1)
		r.stop()
		if len(r.events) != 1 || r.events[0].Err.Error() != "the collector rejected 3 spans of a batch: too old" {
			t.Errorf("told %v", r.events)
		}
	})
}

// TestNothingWaitsForACollector: one that hangs, and one that is away, cost
// memory for so many traces, and the rest are dropped at once and counted.
func TestNothingWaitsForACollector(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // connections are made and nothing is said
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, addr := range map[string]string{"it hangs": ln.Addr().String(), "it is away": gone.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			r := run(t, addr, time.Second)
			began := time.Now()
			r.finish(4 * maxWaiting)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			began = time.Now()
			r.stop()
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("the end took %v, with a grace of one second", took)
			}
			c := r.Counts()
			if c.Sent != 0 || c.Dropped+c.Failed != 4*maxWaiting || c.Dropped == 0 {
				t.Errorf("counted %+v of %d", c, 4*maxWaiting)
			}
			if got := r.kinds(); len(got) != 1 || got[0] != Away {
				t.Errorf("told %v, want that it is away, once", got)
			}
		})
	}
}

func TestMoreThanCanBeSent(t *testing.T) {
	c := newCollector(t, true)
	tracer := newTracer(t, func(cfg *Config) { cfg.Endpoint = c.endpoint })
	var told []Event
	tracer.tell = func(e Event) { told = append(told, e) }
	r := &running{Tracer: tracer}
	r.finish(maxWaiting + 10)
	for range 2 {
		tracer.rest(t.Context(), t.Context())
		r.finish(maxWaiting + 10)
	}
	tracer.sender.close()
	if c := tracer.Counts(); c.Sent != 2*maxWaiting || c.Dropped != 30 {
		t.Errorf("counted %+v", c)
	}
	if len(told) != 1 || told[0].Kind != Crowded {
		t.Errorf("told %v, want that there are too many, once", told)
	}
}

// TestATracedRequestAllocatesForItsLegsOnly: two headers for a pair.
func TestATracedRequestAllocatesForItsLegsOnly(t *testing.T) {
	tracer, b := newTracer(t, nil), record.NewBook(1)
	one := func() {
		tr := tracer.Begin(ofClient, "")
		tr.Leg(1, Prefill)
		tr.Leg(1, Decode)
		rec := b.Begin(ms(0), "x")
		rec.Leased(record.Attempt{Leased: ms(1)})
		f := tracer.Ending(&tr)
		b.End(rec, &record.End{At: ms(2), Copy: &f.View})
		tracer.Send(f)
		tracer.add(<-tracer.queue)
		if tracer.batch.end(); len(tracer.batch.b) > batchBytes {
			t.Error("a request has very long spans")
		}
		tracer.batch.begin()
	}
	one()
	n := 100.0
	for range 50 { // a sync.Pool forgets now and then, under the race detector a quarter
		n = min(n, testing.AllocsPerRun(2, one))
	}
	if n > 4 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkOff is what a request costs that is not traced.
func BenchmarkOff(b *testing.B) {
	var tracer *Tracer
	b.ReportAllocs()
	for b.Loop() {
		tr := tracer.Begin(ofClient, "")
		tr.Leg(1, Prefill)
		tr.Leg(1, Decode)
		tracer.Send(tracer.Ending(&tr))
	}
}

// BenchmarkOn is what a request of one attempt waits for that is traced.
func BenchmarkOn(b *testing.B) {
	tracer, book := newTracer(b, nil), record.NewBook(1)
	b.ReportAllocs()
	for b.Loop() {
		tr := tracer.Begin(ofClient, "")
		tr.Leg(1, Prefill)
		tr.Leg(1, Decode)
		f := tracer.Ending(&tr)
		b.StopTimer()
		rec := book.Begin(ms(0), "x")
		b.StartTimer()
		book.End(rec, &record.End{At: ms(2), Copy: &f.View})
		tracer.Send(f)
		tracer.spare.Put(<-tracer.queue)
	}
}

// BenchmarkSpans is what the spans of a request cost, which is done later.
func BenchmarkSpans(b *testing.B) {
	for _, attempts := range []int{1, 2} {
		b.Run(fmt.Sprintf("attempts=%d", attempts), func(b *testing.B) {
			tracer, v, tr := newTracer(b, nil), retried(), sampledTrace(b, ofClient)
			v.Attempts = v.Attempts[len(v.Attempts)-attempts:]
			f := &Finished{View: *v}
			b.ReportAllocs()
			for b.Loop() {
				f.trace = *tr
				tracer.add(f)
				if len(tracer.batch.b) > batchBytes {
					tracer.batch.end()
					tracer.batch.begin()
				}
			}
		})
	}
}
