package health

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"pdrouter/workers"
)

// A clinic is a Monitor at work, and what its probes find.
type clinic struct {
	*fleet
	monitor *Monitor
	t0      time.Time

	mu     sync.Mutex
	answer map[*workers.Worker]answer
	hangs  *workers.Worker
	probed map[*workers.Worker][]time.Duration
	now    map[*workers.Worker]int // probes under way
}

// openClinic runs a Monitor until the test ends.
func openClinic(t *testing.T, cfg Config, decode int) *clinic {
	c := newClinic(t, newFleet(cfg, 1, decode), cfg)
	c.start(t)
	return c
}

// newClinic returns a Monitor that does not run yet.
func newClinic(t *testing.T, f *fleet, cfg Config) *clinic {
	c := &clinic{
		fleet: f, t0: time.Now(),
		answer: map[*workers.Worker]answer{}, probed: map[*workers.Worker][]time.Duration{}, now: map[*workers.Worker]int{},
	}
	m := NewMonitor(c.Judge)
	c.monitor = m
	m.probe = func(ctx context.Context, w *workers.Worker, path string) answer {
		c.mu.Lock()
		c.probed[w] = append(c.probed[w], time.Since(c.t0))
		if c.now[w]++; c.now[w] > 1 || path != cfg.ProbePath {
			t.Errorf("%d probes of %s are under way", c.now[w], path)
		}
		a, takes := c.answer[w], time.Duration(0)
		if c.hangs == w {
			takes = time.Hour
		}
		c.mu.Unlock()
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			a = unanswered(ctx, path, ctx.Err())
		}
		c.mu.Lock()
		c.now[w]--
		c.mu.Unlock()
		return a
	}
	return c
}

// start runs the Monitor until the test ends.
func (c *clinic) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return c.monitor.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func (c *clinic) set(w *workers.Worker, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer[w] = a
}

func (c *clinic) probes(w *workers.Worker) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.probed[w])
}

func (c *clinic) isBarred(w *workers.Worker) bool { return c.barOf(w, workers.Probing) > 0 }

func TestMonitor(t *testing.T) {
	unwell := answer{kind: failing, told: true, reason: "/health: status 503"}
	dead := answer{kind: failing, reason: "/health: no answer in time"}
	for name, f := range map[string]func(*testing.T, *clinic){
		"each worker is probed at once, then once per interval, spread out": func(t *testing.T, c *clinic) {
			time.Sleep(10*time.Minute + time.Second)
			var at []time.Duration
			for _, w := range append(c.decode, c.prefill...) {
				if n := c.probes(w); n < 10 || n > 12 {
					t.Errorf("%s was probed %d times in ten minutes", w.ID, n)
				}
				if first := c.probed[w][0]; first > beat {
					t.Errorf("%s was first probed after %v", w.ID, first)
				}
				at = append(at, c.probed[w][5])
			}
			slices.Sort(at)
			if len(slices.Compact(at)) < len(c.decode)+1 {
				t.Errorf("the sixth probes are not spread out: %v", at)
			}
		},
		"three failures bar it, two successes let it in": func(t *testing.T, c *clinic) {
			w := c.decode[0]
			time.Sleep(2 * time.Second)
			c.set(w, unwell)
			n := c.probes(w)
			for c.probes(w) < n+2 {
				time.Sleep(100 * time.Millisecond)
			}
			synctest.Wait()
			if c.isBarred(w) {
				t.Fatal("two failures bar it")
			}
			time.Sleep(beat)
			if !c.isBarred(w) {
				t.Fatal("three failures, a second apart, do not bar it")
			}
			if got := c.reasonOf(w, workers.Probing); got != "probes fail: /health: status 503" {
				t.Errorf("the reason is %q", got)
			}
			times(30, func() {
				time.Sleep(beat)
				if !c.isBarred(w) {
					t.Fatal("the bar is not renewed")
				}
			})
			c.set(w, answer{})
			time.Sleep(beat)
			if !c.isBarred(w) {
				t.Error("one success lets it in")
			}
			time.Sleep(beat)
			if c.isBarred(w) {
				t.Error("two successes do not let it in")
			}
			if want := []string{"decode-0 answering>failing", "decode-0 failing>answering"}; !slices.Equal(c.history(Probes), want) {
				t.Errorf("events are %q, want %q", c.history(Probes), want)
			}
		},
		"a success in between begins the count of failures anew": func(t *testing.T, c *clinic) {
			w := c.decode[0]
			time.Sleep(2 * time.Second)
			for range 5 {
				c.set(w, dead)
				for n := c.probes(w); c.probes(w) < n+2; {
					time.Sleep(100 * time.Millisecond)
				}
				c.set(w, answer{})
				for n := c.probes(w); c.probes(w) < n+1; {
					time.Sleep(100 * time.Millisecond)
				}
			}
			if len(c.history(Probes)) > 0 {
				t.Errorf("events: %q", c.history(Probes))
			}
		},
		"recent good traffic saves the probe and counts as life": func(t *testing.T, c *clinic) {
			w := c.decode[0]
			time.Sleep(2 * time.Second)
			c.set(w, dead)
			n := c.probes(w)
			times(600, func() {
				c.run(t, 0, 0, nil, nil)
				time.Sleep(time.Second)
			})
			if c.probes(w) != n || c.isBarred(w) {
				t.Errorf("%d probes were sent, barred %v", c.probes(w)-n, c.isBarred(w))
			}
		},
		// BUG-071
		"a worker that starts and says so gets no traffic until it is well": func(t *testing.T, c *clinic) {
			w := c.decode[0]
			c.set(w, unwell)
			time.Sleep(beat)
			if !c.isBarred(w) {
				t.Fatal("it is not barred by its first answer")
			}
			c.set(w, answer{})
			time.Sleep(beat)
			if c.isBarred(w) {
				t.Error("its first good answer does not let it in")
			}
		},
		"a lone worker is never barred by probes alone": func(t *testing.T, c *clinic) {
			w := c.prefill[0]
			time.Sleep(2 * time.Second)
			c.set(w, unwell)
			time.Sleep(5 * time.Minute)
			if c.isBarred(w) {
				t.Error("it is barred")
			}
			if want := []string{"prefill-0 answering>failing"}; !slices.Equal(c.history(Probes), want) {
				t.Errorf("events are %q, want %q", c.history(Probes), want)
			}
		},
		"when all of a role fail, one stays in": func(t *testing.T, c *clinic) {
			time.Sleep(2 * time.Second)
			for _, w := range c.decode {
				c.set(w, dead)
			}
			time.Sleep(5 * time.Minute)
			barred := 0
			for _, w := range c.decode {
				if c.isBarred(w) {
					barred++
				}
			}
			if barred != len(c.decode)-1 {
				t.Errorf("%d of %d are barred", barred, len(c.decode))
			}
		},
		"an engine that wants a key is not sick, and that is said once": func(t *testing.T, c *clinic) {
			w := c.decode[0]
			c.set(w, read(401, "/health"))
			time.Sleep(10 * time.Minute)
			if c.isBarred(w) {
				t.Error("it is barred")
			}
			if want := []string{"decode-0 answering>unclear"}; !slices.Equal(c.history(Probes), want) {
				t.Errorf("events are %q, want %q", c.history(Probes), want)
			}
		},
		"probes that hang are bounded and do not pile up": func(t *testing.T, c *clinic) {
			w := c.decode[0]
			time.Sleep(2 * time.Second)
			c.mu.Lock()
			c.hangs = w
			c.mu.Unlock()
			time.Sleep(2 * time.Minute)
			if !c.isBarred(w) {
				t.Error("it is not barred")
			}
		},
		"a worker that fell silent is asked within a second, and let in when it answers": func(t *testing.T, c *clinic) {
			w := c.decode[0]
			time.Sleep(3 * time.Minute)
			c.set(w, dead)
			time.Sleep(3 * time.Second)
			c.run(t, 0, 0, nil, gone())
			time.Sleep(4 * time.Second)
			if n := c.probes(w); c.barOf(w, workers.Stalled) == 0 || c.barOf(w, workers.Probing) == 0 {
				t.Fatalf("it is not barred after %d probes", n)
			}
			c.set(w, answer{})
			time.Sleep(beat)
			if c.barOf(w, workers.Stalled) > 0 {
				t.Error("it is barred for silence, though it answers")
			}
		},
		"a worker that is no longer ready is left alone, its bar lifted": func(t *testing.T, c *clinic) {
			w := c.decode[0]
			c.set(w, unwell)
			time.Sleep(2 * beat)
			c.fleet.mu.Lock()
			c.statuses[1].State = workers.Unready
			c.fleet.mu.Unlock()
			time.Sleep(2 * beat)
			n := c.probes(w)
			time.Sleep(10 * time.Minute)
			if c.isBarred(w) || c.probes(w) != n {
				t.Errorf("barred %v, probed %d times", c.isBarred(w), c.probes(w)-n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, openClinic(t, DefaultConfig(), 4)) })
		})
	}
}

func TestDisabledProbesAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.DisableProbes = true
		c := openClinic(t, cfg, 2)
		time.Sleep(10 * time.Minute)
		if c.probes(c.decode[0]) > 0 {
			t.Error("probes are sent")
		}
		c.fleet.mu.Lock()
		c.statuses = c.statuses[:2]
		c.fleet.mu.Unlock()
		c.run(t, 0, 1, nil, nil)
		time.Sleep(2 * beat)
		if _, ok := c.wards.Load(c.decode[1]); ok {
			t.Error("who is gone is remembered")
		}
	})
}
