package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest/observer"

	"pdrouter/sim"
)

// How long, and with what, TestInvariants runs:
//
//	go test -race ./cmd/pdrouter -run TestInvariants -seed 7 -requests 5000
var (
	scheduleSeed = flag.Uint64("seed", 1, "of the random schedule of TestInvariants")
	scheduleSize = flag.Int("requests", 300, "of the random schedule of TestInvariants, per dialect")
)

// TestInvariants runs a random schedule of requests, departures and faults, and
// then looks at everything at rest. Each answer is judged by itself: whole and
// right, or an error that says so (I4, I5). At rest every lease has ended (I1),
// every gauge is zero (I8), nothing is held (I9), no engine has anything left
// (I3), and none was ever used wrongly (I2).
func TestInvariants(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			old := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, old) })
			s := newStorm(t, dialect, *scheduleSize)
			s.run()
			s.wantRest()
			well := func() bool {
				status, _ := post(t, s.clients[0], s.f.base+"/v1/completions", jsonOf(t, map[string]any{"model": "sim-model", "prompt": prompt(9, 100), "max_tokens": 1}))
				return status == http.StatusOK
			}
			if !eventually(well) { // the last of a role whose breaker is open is tried within seconds
				t.Error("nothing goes though nothing fails any more")
			}
			for i := range 8 { // and all is well again
				complete(t, s.clients[i%2], s.f.base, prompt(i, 1000), 5)
			}
			if n := s.outcomes[wholeAnswer]; n < len(s.steps)/5 {
				t.Errorf("only %d of %d answers were whole: the schedule shows little", n, len(s.steps))
			}
			if n := s.outcomes[toldByStatus] + s.outcomes[toldInStream]; n < len(s.steps)/100 { // most failures are made good by another pair
				t.Errorf("only %d of %d requests failed: the schedule shows little", n, len(s.steps))
			}
		})
	}
}

// A router that is stopped amid all this ends each request that it has let in,
// well or with an error, and leaves nothing behind.
func TestDrainUnderLoad(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			old := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, old) })
			s := newStorm(t, dialect, 100)
			s.stopAt = 60
			for i := range s.steps { // net/http's client of HTTP/2 has a data race when it is told to go away
				s.steps[i].http = 1
			}
			s.run()
			s.wantRest()
			if s.outcomes[turnedAway] == 0 || s.outcomes[wholeAnswer] < 5 {
				t.Errorf("outcomes = %v: the schedule shows little", s.outcomes)
			}
		})
	}
}

// newStorm makes a schedule of that many requests, a fleet and its clients.
func newStorm(t *testing.T, dialect string, requests int) *storm {
	t.Helper()
	rnd := scheduler{rand.New(rand.NewPCG(*scheduleSeed, 0)), dialect}
	cert, key := newCert(t)
	s := &storm{
		t: t, f: newFleet(t, stormPlan(dialect, cert, key)), steps: rnd.steps(requests), outcomes: map[string]int{},
		clients: [2]*http.Client{newTLSClient(t, cert, 1), newTLSClient(t, cert, 2)},
	}
	t.Cleanup(func() {
		t.Logf("seed %d: %v", *scheduleSeed, s.outcomes)
		if t.Failed() {
			t.Logf("orders:\n%s", strings.Join(s.given, "\n"))
		}
	})
	return s
}

// stormPlan is a fleet with little room and little patience.
func stormPlan(dialect, cert, key string) fleetPlan {
	return fleetPlan{
		dialect: dialect,
		engine: func(c *sim.Config) {
			c.KVTokens, c.MaxRunning = 16<<10, 8
			c.PrefillPerToken, c.DecodePerToken = 5*time.Microsecond, time.Millisecond
			c.BootstrapTimeout, c.WaitingTimeout = 3*time.Second, 3*time.Second
			c.HandshakeTimeout, c.LostTimeout = 200*time.Millisecond, 200*time.Millisecond
			c.DisconnectDelay, c.Lease = 30*time.Millisecond, 1500*time.Millisecond
		},
		config: func(c *Config) {
			c.TLSCert, c.TLSKey, c.ShutdownGrace = cert, key, 50*time.Millisecond
			c.Router.FirstByte, c.Router.StreamIdle, c.Router.RequestTimeout = time.Second, 500*time.Millisecond, 1500*time.Millisecond
		},
	}
}

// A storm is one run of a schedule.
type storm struct {
	t       *testing.T
	f       *fleet
	clients [2]*http.Client // of HTTP/1.1 and HTTP/2
	steps   []step
	stopAt  int // the step before which the router is stopped; 0: none

	mu       sync.Mutex // guards the following
	next     int
	stopped  bool
	given    []string // orders
	outcomes map[string]int
	wrong    int
}

// maxTold is how many requests that went wrong are told in full.
const maxTold = 10

// atOnce is how many requests are in flight at a time.
const atOnce = 16

// run runs the schedule to its end.
func (s *storm) run() {
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for {
				i, ok := s.take()
				if !ok {
					return
				}
				s.play(i)
			}
		})
	}
	wg.Wait()
}

// take returns the next step, after its orders were given.
func (s *storm) take() (i int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == len(s.steps) {
		return 0, false
	}
	i = s.next
	s.next++
	if i == s.stopAt && i > 0 {
		s.stopped = true
		s.f.stop()
	}
	for _, o := range s.steps[i].orders {
		s.given = append(s.given, fmt.Sprintf("before request %d: %v", i, o))
		e := s.f.engines()[o.engine]
		if o.clear {
			e.ClearFaults()
		} else {
			e.Fail(o.fault)
		}
	}
	return i, true
}

// play sends one request and judges what comes.
func (s *storm) play(i int) {
	got := s.send(i)
	outcome, err := s.steps[i].judge(got)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped && got.status == 0 {
		outcome, err = turnedAway, nil
	}
	if err == nil {
		s.outcomes[outcome]++
		return
	}
	if s.wrong++; s.wrong <= maxTold {
		s.t.Errorf("request %d (seed %d): %v\n%v\n\nanswer: %v\n\nlog:\n%s\n%d orders had been given",
			i, *scheduleSeed, err, s.steps[i], got, s.logOf(requestName(i)), len(s.given))
	}
}

func requestName(i int) string { return fmt.Sprint("request-", i) }

// send sends one request, and leaves when it is time.
func (s *storm) send(i int) (got reply) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if d := s.steps[i].leaves; d > 0 {
		timer := time.AfterFunc(d, cancel)
		defer timer.Stop()
	}
	defer func() { got.left = ctx.Err() != nil }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.f.base+s.steps[i].path, strings.NewReader(s.steps[i].body))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", requestName(i))
	resp, err := s.clients[s.steps[i].http-1].Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if id := resp.Header.Get("X-Request-Id"); id != requestName(i) && err == nil {
		err = errors.New("this is the answer to " + id)
	}
	return reply{status: resp.StatusCode, code: resp.Header.Get("X-SMG-Error-Code"), body: string(body), err: err}
}

// logOf returns the router's log lines of a request.
func (s *storm) logOf(id string) string {
	var b strings.Builder
	for _, line := range s.f.logs.Filter(func(e observer.LoggedEntry) bool { return e.ContextMap()["request_id"] == id }).All() {
		fmt.Fprintln(&b, line.Level, line.Message, line.ContextMap())
	}
	return b.String()
}

// wantRest wants that nothing is left of the schedule.
func (s *storm) wantRest() {
	s.t.Helper()
	for _, e := range s.f.engines() {
		e.ClearFaults()
	}
	var left []string
	if eventually(func() bool { left = s.left(); return len(left) == 0 }) {
		return
	}
	s.t.Errorf("seed %d: at rest there is left:\n%s", *scheduleSeed, strings.Join(left, "\n"))
}

// left returns what there is that must not be at rest.
func (s *storm) left() (left []string) {
	note := func(n int, format string, args ...any) {
		if n != 0 {
			left = append(left, fmt.Sprintf("%d ", n)+fmt.Sprintf(format, args...))
		}
	}
	for _, w := range s.f.registry.Statuses() {
		note(w.InFlight, "leases of %s", w.Worker.ID)
	}
	note(int(s.f.handler.BufferedBytes()), "bytes of bodies")
	note(len(s.f.handler.Ages()), "requests in flight")
	for i, e := range s.f.engines() {
		st := e.Stats()
		note(st.Requests+st.Running+st.Waiting+st.Transferring, "requests on engine %d: %+v", i, st)
		note(st.UsedBlocks, "blocks used on engine %d, %d of them held", i, st.HeldBlocks)
	}
	if s.stopped {
		return left
	}
	page := scrape(s.t, s.f.scrape.Addr().String())
	for _, gauge := range restGauges() {
		note(int(page.sum(gauge)), "in gauge %s", gauge)
	}
	attempts := page.sum("smg_pd_kv_connector_mode_total")
	for _, role := range []string{sim.Prefill, sim.Decode} {
		note(int(attempts-page.sum("pdrouter_legs_total", `role="`+role+`"`)), "%s legs that were not counted at their end", role)
	}
	return left
}
