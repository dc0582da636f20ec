package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pdrouter/router"
	"pdrouter/sim"
	"pdrouter/workers"
)

func TestAdmissionFlags(t *testing.T) {
	for line, change := range map[string]func(*workers.Admission){
		"": func(*workers.Admission) {},
		"--max-concurrent-requests 64 --queue-size 32 --queue-timeout-secs 1.5": func(a *workers.Admission) {
			a.MaxInFlight, a.QueueSize, a.QueueTimeout = 64, 32, 1500*time.Millisecond
		},
		"--max-concurrent-requests -1 --prefill-max-inflight-requests-per-worker -1 --rate-limit-tokens-per-second -1": func(*workers.Admission) {},
		"--rate-limit-tokens-per-second 2.5 --queue-size 0":                                                            func(a *workers.Admission) { a.Rate, a.QueueSize = 2.5, 0 },
		"--prefill-max-inflight-requests-per-worker 4 --prefill-queue-size 5 --prefill-queue-timeout-secs 6 --pd-admission-wait-secs 7": func(a *workers.Admission) {
			a.PrefillMaxInFlight, a.PrefillQueueSize, a.PrefillQueueTimeout, a.DecodeWait = 4, 5, 6*time.Second, 7*time.Second
		},
	} {
		want := workers.DefaultAdmission()
		change(&want)
		if cfg, _ := check(t, strings.Fields(pairArgs+line)...); cfg.Workers.Admission != want {
			t.Errorf("%q makes %+v, want %+v", line, cfg.Workers.Admission, want)
		}
	}
	if cfg, _ := check(t, strings.Fields(pairArgs+"--priority-scheduler-default-max-class interactive")...); cfg.Router.MaxClass != "interactive" {
		t.Errorf("the highest class is %q, want interactive", cfg.Router.MaxClass)
	}
	for line, want := range map[string]string{
		"--max-concurrent-requests -2":                  "below -1",
		"--rate-limit-tokens-per-second -3":             "below 0",
		"--queue-size -1":                               "queue-size: must not be negative",
		"--queue-timeout-secs 0":                        "must be above 0",
		"--priority-scheduler-default-max-class urgent": "known are system, interactive, default, bulk",
	} {
		flags, in := serveFlags()
		args, err := normalise(flags, strings.Fields(pairArgs+line))
		if err != nil {
			t.Fatal(err)
		}
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		if _, err := in.load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// A lineup is a fleet with one slot, and requests that wait for it.
type lineup struct {
	*fleet
	t      *testing.T
	client *http.Client
	ended  chan queued // as they end
}

// A queued is a request that was asked, and its answer.
type queued struct {
	name string
	answered
}

// tokenPause is the pace of the engines of a lineup.
const tokenPause = 20 * time.Millisecond

func newLineup(t *testing.T, change func(*Config)) *lineup {
	t.Helper()
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, engine: func(c *sim.Config) {
		c.DecodePerToken, c.DisconnectDelay = tokenPause, 50*time.Millisecond
	}, config: func(c *Config) {
		c.Workers.Admission.MaxInFlight = 1
		change(c)
	}})
	return &lineup{fleet: f, t: t, client: newClient(t), ended: make(chan queued, 100)}
}

// ask sends a request for so many tokens, with pairs of header and value.
func (l *lineup) ask(ctx context.Context, name string, tokens int, header ...string) {
	l.t.Helper()
	a := completion(l.t, 0, "Hello", tokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base+a.path, strings.NewReader(a.body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	go func() {
		q := queued{name: name}
		q.began = time.Now()
		resp, err := l.client.Do(req)
		if err != nil {
			q.err = err
			l.ended <- q
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		q.reply = reply{status: resp.StatusCode, code: resp.Header.Get("X-SMG-Error-Code"), body: string(b), err: err}
		q.retryAfter, q.ended = resp.Header.Get("Retry-After"), time.Now()
		l.ended <- q
	}()
}

// occupy takes the slot until the returned function is called.
func (l *lineup) occupy() (leave func()) {
	l.t.Helper()
	ctx, leave := context.WithCancel(l.t.Context())
	l.ask(ctx, "occupant", 10_000)
	l.want(1, 0)
	return leave
}

// want waits until so many are under way and so many wait.
func (l *lineup) want(open, waiting int) {
	l.t.Helper()
	if !eventually(func() bool { c := l.registry.Crowd(); return c.Open == open && c.Waiting() == waiting }) {
		l.t.Fatalf("%+v, want %d under way and %d that wait", l.registry.Crowd(), open, waiting)
	}
}

// next returns the next request to end that is not the occupant's.
func (l *lineup) next() queued {
	l.t.Helper()
	q := <-l.ended // the client does not wait for ever
	if q.name == "occupant" {
		q = <-l.ended
	}
	return q
}

// wantRefused wants an answer as OpenAI's clients read it.
func (l *lineup) wantRefused(q queued, status int, code string) {
	l.t.Helper()
	seconds, err := strconv.Atoi(q.retryAfter)
	if got, bad := parseEnvelope(q.body); q.status != status || got != code || q.code != code || bad != nil || err != nil || seconds < 1 || seconds > 60 {
		l.t.Errorf("%s got %d, Retry-After %q, %s, want %d %s and a Retry-After", q.name, q.status, q.retryAfter, q.body, status, code)
	}
}

// TestQueueOverHTTP is what clients see of a queue.
func TestQueueOverHTTP(t *testing.T) {
	t.Run("it is full", func(t *testing.T) {
		l := newLineup(t, func(c *Config) { c.Workers.Admission.QueueSize = 1 })
		leave := l.occupy()
		l.ask(t.Context(), "waits", 2)
		l.want(1, 1)
		l.ask(t.Context(), "comes too late", 2)
		l.wantRefused(l.next(), http.StatusTooManyRequests, "admission_queue_full")
		page := l.scraped(t)
		for series, want := range map[string]float64{
			"smg_admission_queue_depth": 1, "smg_admission_inflight": 1, "smg_admission_queue_rejected_total": 1,
			"pdrouter_lease_waiting_requests": 1, "pdrouter_admission_waiting_requests": 1,
		} {
			if got := page.sum(series); got != want {
				t.Errorf("%s = %v, want %v", series, got, want)
			}
		}
		leave()
		if q := l.next(); q.status != http.StatusOK {
			t.Errorf("who waited got %d %s, want 200", q.status, q.body)
		}
		l.want(0, 0)
		page = l.scraped(t)
		page.wantNoBreakers(t)
		if n := page.sum("pdrouter_legs_total", `outcome="failed"`) + page.sum("smg_router_upstream_responses_total", `status_code="429"`); n != 0 {
			t.Errorf("%v legs count as failed, want none: nobody was asked", n)
		}
		if n := page.sum("pdrouter_admission_wait_seconds_count", `for="slots"`, `end="admitted"`); n != 1 {
			t.Errorf("%v waits are counted, want 1", n)
		}
	})
	t.Run("it is none", func(t *testing.T) {
		l := newLineup(t, func(c *Config) { c.Workers.Admission.QueueSize = 0 })
		defer l.occupy()()
		l.ask(t.Context(), "has no slot", 2)
		l.wantRefused(l.next(), http.StatusTooManyRequests, "admission_queue_full")
	})
	t.Run("it takes too long", func(t *testing.T) {
		l := newLineup(t, func(c *Config) { c.Workers.Admission.QueueTimeout = 150 * time.Millisecond })
		defer l.occupy()()
		l.ask(t.Context(), "waits", 2)
		q := l.next()
		l.wantRefused(q, http.StatusServiceUnavailable, "admission_queue_timeout")
		if took := q.ended.Sub(q.began); took < 150*time.Millisecond || took > 5*time.Second {
			t.Errorf("it was told after %v, want 150ms", took)
		}
		if n := l.scraped(t).sum("smg_admission_queue_rejected_total", `reason="timeout"`); n != 1 {
			t.Errorf("%v time-outs are counted, want 1", n)
		}
	})
	t.Run("a client leaves it", func(t *testing.T) {
		l := newLineup(t, func(c *Config) { c.Workers.Admission.QueueSize = 1 })
		defer l.occupy()()
		ctx, leave := context.WithCancel(t.Context())
		l.ask(ctx, "leaves", 2)
		l.want(1, 1)
		leave()
		begin := time.Now()
		l.want(1, 0)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("its place is free after %v, want at once", took)
		}
		l.next()
		l.ask(t.Context(), "comes instead", 2)
		l.want(1, 1)
	})
	t.Run("the router stops", func(t *testing.T) {
		l := newLineup(t, func(c *Config) { c.ShutdownGrace = 300 * time.Millisecond })
		l.occupy()
		l.ask(t.Context(), "waits", 2)
		l.want(1, 1)
		l.stop()
		if q := l.next(); q.status != http.StatusServiceUnavailable || q.code != "shutting_down" {
			t.Errorf("who waits got %d %s, want 503 shutting_down", q.status, q.body)
		}
	})
}

// TestOrderOfTheQueueOverHTTP: by class, then by whose key was served least, then
// as they came.
func TestOrderOfTheQueueOverHTTP(t *testing.T) {
	l := newLineup(t, func(c *Config) { c.Router.MaxClass = router.Interactive.String() })
	leave := l.occupy()
	for i, q := range []struct {
		name   string
		header []string
	}{
		{"bulk", []string{"X-Priority", "bulk"}},
		{"first of one key", []string{"Authorization", "Bearer one"}},
		{"second of one key", []string{"Authorization", "Bearer one"}},
		{"first of another", []string{"Authorization", "Bearer two"}},
		{"second of another", []string{"Authorization", "Bearer two"}},
		{"interactive", []string{"x-smg-priority", "Interactive"}},
		{"system, capped", []string{"X-Priority", "2"}},
	} {
		l.ask(t.Context(), q.name, 4, q.header...)
		l.want(1, i+1)
	}
	leave()
	var got []string
	for range 7 {
		q := l.next()
		got = append(got, q.name)
		if q.status != http.StatusOK {
			t.Errorf("%s got %d %s", q.name, q.status, q.body)
		}
	}
	want := []string{"interactive", "system, capped", "first of one key", "first of another", "second of one key", "second of another", "bulk"}
	if !slices.Equal(got, want) {
		t.Errorf("served in the order\n%q, want\n%q", got, want)
	}
}
