package workers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pdrouter/exchange"
)

// An actor is an engine that plays one part after another.
type actor struct{ part atomic.Pointer[pages] }

func play(p pages) *actor {
	a := &actor{}
	a.part.Store(&p)
	return a
}

func (a *actor) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.part.Load().ServeHTTP(w, r) }

// run runs a registry of the specs until the test ends.
func run(t *testing.T, events *diary, change func(*Registry), specs ...Spec) *Registry {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Specs, cfg.DrainSettle = specs, 0
	cfg.ProbeInterval, cfg.LoadInterval = 5*time.Millisecond, 5*time.Millisecond
	r, err := NewRegistry(cfg, exchange.DefaultConfig(), first{}, events.note)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	eventually(t, "Run to run", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.start != nil
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		r.Close()
	})
	return r
}

// isReady reports whether the worker with that ID may be leased.
func isReady(r *Registry, id string) bool {
	s, _ := r.Get(id)
	return s.State == Ready
}

var (
	prefillPages = pages{"/server_info": sglangPrefill("127.0.0.1"), "/v1/models": models}
	decodePages  = pages{"/server_info": sglangDecode, "/v1/models": models}
)

// TestAddAtRunTime adds workers to a daemon that has none.
func TestAddAtRunTime(t *testing.T) {
	var events diary
	r := run(t, &events, nil)
	for role, p := range [...]pages{prefillPages, decodePages} {
		if _, err := r.Add(Spec{Role: Role(role), URL: serve(t, p)}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both to be ready", func() bool { return len(r.Models()) == 1 })
	if s, _ := r.Get("decode-0"); s.Weight > 0.3 {
		t.Errorf("weight of a worker that was just added = %v, want hardly more than 0.25", s.Weight)
	}
	if err := r.Remove("decode-0"); err != nil {
		t.Fatal(err)
	}
	if len(r.Models()) != 0 || ids(r) != "prefill-0 ready" {
		t.Errorf("workers after the removal = %s, want prefill-0 alone", ids(r))
	}
}

// TestRecheck is about an engine that comes back as another one: as soon as
// somebody has noticed that, it gets nothing that is meant for the old.
func TestRecheck(t *testing.T) {
	events := diary{statesOnly: true}
	engine := play(decodePages)
	r := run(t, &events, nil, Spec{Role: Prefill, URL: serve(t, prefillPages)}, Spec{Role: Decode, URL: serve(t, engine)})
	events.await(t, 2) // both are ready
	events.take()
	w := worker(t, r, "decode-0")
	engine.part.Store(&pages{"/server_info": sglangDecode, "/v1/models": `{"data":[{"id":"other"}]}`})

	r.Recheck(w)
	err := r.Lease(t.Context(), Need{Model: "m"}, new(Pair))

	if err == nil {
		t.Error("Lease grants the old model after the recheck")
	}
	eventually(t, "it to be ready again", func() bool { return isReady(r, "decode-0") })
	if err := r.Lease(t.Context(), Need{Model: "m"}, new(Pair)); err == nil {
		t.Error("Lease grants the old model")
	}
	events.await(t, 3)
	want := []string{
		"changed decode-0: ready to unready, has started anew, and is looked at again",
		"changed decode-0: unready to ready",
		"learned decode-0: ready to ready, it serves other, no longer m",
	}
	got := events.take()
	slices.Sort(got) // two goroutines tell them
	if !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
	if s, _ := r.Get("decode-0"); s.Weight > 0.3 {
		t.Errorf("weight after the restart = %v, want hardly more than 0.25", s.Weight)
	}
}

// TestRecheckForgetsOlderLooks: a look that began before the restart was noticed
// says nothing about the engine after it.
func TestRecheckForgetsOlderLooks(t *testing.T) {
	r := fleet(t, 1, first{})
	w := worker(t, r, "decode-0")
	w.looks = 7 // the seventh look is under way
	r.Recheck(w)

	r.learn(7, w, &Facts{Dialect: "sglang", Models: []string{"old"}}, nil)
	if isReady(r, "decode-0") {
		t.Error("a look of before the restart made the worker ready")
	}
	r.learn(8, w, &Facts{Dialect: "sglang", Models: []string{"new"}}, nil)
	r.learn(7, w, nil, errors.New("connection refused"))
	if !isReady(r, "decode-0") {
		t.Error("an overtaken look made the worker unready")
	}
}

// listener is a Judge that keeps what was reported.
type listener struct {
	silent
	mu   sync.Mutex
	told []float64 // Waiting, before and now

	failed []error // why there was no report
}

func (l *listener) Reported(_ *Worker, before, now Report, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.At.IsZero() {
		l.failed = append(l.failed, err)
		return
	}
	l.told = append(l.told, before.Waiting, now.Waiting)
}

// TestReports is about an engine that tells how it is, then cannot be asked,
// then tells again, and about one whose metrics are off.
func TestReports(t *testing.T) {
	var (
		events diary
		judge  listener
		turn   atomic.Int64
	)
	r := run(t, &events, func(r *Registry) {
		r.SetJudge(&judge)
		r.read = func(_ context.Context, w *Worker) (Report, error) {
			if w.Role == Prefill {
				return Report{At: time.Now(), Waiting: -1}, errors.New("the engine's metrics are off")
			}
			n := turn.Add(1)
			if n == 3 || n == 4 {
				return Report{Waiting: -1}, errors.New("connection refused")
			}
			return Report{At: time.Now(), Waiting: float64(n)}, nil
		}
	}, Spec{Role: Prefill, URL: serve(t, prefillPages)}, Spec{Role: Decode, URL: serve(t, decodePages)})
	eventually(t, "six polls", func() bool { return turn.Load() >= 6 })

	if s, _ := r.Get("decode-0"); s.State != Ready || s.Report.Waiting < 5 || s.Unread != "" {
		t.Errorf("decode-0 is %s with report %v, unread %q; want ready with the fifth or a later one", s.State, s.Report.Waiting, s.Unread)
	}
	if s, _ := r.Get("prefill-0"); s.State != Ready || s.Report.At.IsZero() || s.Unread == "" {
		t.Errorf("prefill-0 is %s, report of %v, unread %q; want ready with what little it tells", s.State, s.Report.At, s.Unread)
	}
	var unread []string
	for _, line := range events.take() {
		if !strings.HasPrefix(line, "changed") {
			unread = append(unread, line)
		}
	}
	slices.SortStableFunc(unread, func(a, b string) int {
		return strings.Compare(strings.Fields(b)[1], strings.Fields(a)[1])
	})
	want := []string{
		"unread prefill-0: ready to ready, the engine's metrics are off",
		"unread decode-0: ready to ready, connection refused",
		"read decode-0: ready to ready",
	}
	if !slices.Equal(unread, want) {
		t.Errorf("events = %q, want %q", unread, want)
	}
	judge.mu.Lock()
	defer judge.mu.Unlock()
	var decode []float64
	for i := 0; i < len(judge.told); i += 2 {
		if judge.told[i+1] >= 0 {
			decode = append(decode, judge.told[i:i+2]...)
		}
	}
	if want := []float64{0, 1, 1, 2, 2, 5}; len(decode) < 6 || !slices.Equal(decode[:6], want) {
		t.Errorf("the judge was told %v, want %v: each report beside the one before", decode, want)
	}
}

// TestRemoveEndsReports: nobody asks an engine that is none of ours any more.
func TestRemoveEndsReports(t *testing.T) {
	var (
		events diary
		polls  atomic.Int64
	)
	r := run(t, &events, func(r *Registry) {
		r.read = func(context.Context, *Worker) (Report, error) { polls.Add(1); return Report{}, nil }
	}, Spec{Role: Decode, URL: serve(t, decodePages)})
	eventually(t, "reports", func() bool { return polls.Load() > 2 })

	r.Remove("decode-0")

	pause(10 * time.Millisecond) // for a report that is under way
	before := polls.Load()
	pause(30 * time.Millisecond)
	if n := polls.Load() - before; n != 0 {
		t.Errorf("%d reports were read after the removal", n)
	}
}

func TestNoReports(t *testing.T) {
	var (
		events diary
		polls  atomic.Int64
	)
	r := run(t, &events, func(r *Registry) {
		r.cfg.NoReports = true
		r.read = func(context.Context, *Worker) (Report, error) { polls.Add(1); return Report{}, nil }
	}, Spec{Role: Decode, URL: serve(t, decodePages)})
	eventually(t, "it to be ready", func() bool { return isReady(r, "decode-0") })
	pause(30 * time.Millisecond)
	if n := polls.Load(); n != 0 {
		t.Errorf("%d reports were read with monitoring off", n)
	}
}

// TestStranded adds a decode worker on another host beside a prefill worker
// that told, behind its unix socket, an address on loopback.
func TestStranded(t *testing.T) {
	r := readyRegistry(t, Config{
		Dialect: "auto", ProbeInterval: 1, ProbeTimeout: 1, LoadInterval: 1, WarmupShare: 1,
		Admission: DefaultAdmission(),
		Specs:     []Spec{{Role: Prefill, URL: "unix:/run/p.sock"}},
	}, first{})
	r.all[0].facts.BootstrapHost = "127.0.0.1"

	if _, err := r.Add(Spec{Role: Decode, URL: "http://10.0.0.9:1"}); err != nil {
		t.Fatal(err)
	}
	if s, _ := r.Get("prefill-0"); s.State != Unready || !strings.Contains(s.Reason, "http://10.0.0.9:1 cannot reach it") {
		t.Errorf("prefill-0 is %s (%s), want unready, because of the new decode worker", s.State, s.Reason)
	}
}
