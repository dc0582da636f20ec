package health

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/workers"
)

// TestMissingReports is about a worker whose reports stay away: its engine is stopped,
// accepts connections, and answers nothing.
func TestMissingReports(t *testing.T) {
	cfg := DefaultConfig()
	dead := answer{kind: failing, reason: "/health: no answer in time"}
	// missing has reads fail for so many seconds.
	missing := func(c *clinic, w *workers.Worker, seconds int) {
		times(seconds, func() {
			time.Sleep(time.Second)
			c.Reported(w, workers.Report{}, workers.Report{}, gone())
		})
	}
	reports := func(c *clinic, w *workers.Worker) { c.reporter(w).report(same) }
	for name, f := range map[string]func(*testing.T, *clinic, *workers.Worker){
		"it is barred after --worker-stale-secs, and let in by the next report": func(t *testing.T, c *clinic, w *workers.Worker) {
			reports(c, w)
			missing(c, w, 14)
			if c.barOf(w, workers.Stalled) > 0 {
				t.Fatal("it is barred too soon")
			}
			missing(c, w, 2)
			if c.barOf(w, workers.Stalled) == 0 || !strings.Contains(c.reasonOf(w, workers.Stalled), "connection refused") {
				t.Fatalf("it is not barred, or not for its silence: %q", c.reasonOf(w, workers.Stalled))
			}
			missing(c, w, 60)
			if c.barOf(w, workers.Stalled) == 0 {
				t.Fatal("the bar is not renewed")
			}
			reports(c, w)
			if c.barOf(w, workers.Stalled) > 0 {
				t.Error("it is barred, though it reports")
			}
			if want := []string{"decode-0 moving>stalled", "decode-0 stalled>moving"}; !slices.Equal(c.history(Progress), want) {
				t.Errorf("events are %q, want %q", c.history(Progress), want)
			}
		},
		"one read that never ends is enough": func(t *testing.T, c *clinic, w *workers.Worker) {
			reports(c, w)
			missing(c, w, 1)
			time.Sleep(cfg.StaleTime + beat)
			if c.barOf(w, workers.Stalled) == 0 {
				t.Error("it is not barred")
			}
		},
		"requests that it does well are signs of life": func(t *testing.T, c *clinic, w *workers.Worker) {
			reports(c, w)
			times(60, func() {
				missing(c, w, 1)
				c.run(t, 0, 0, nil, nil)
			})
			if c.barOf(w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"and so are first tokens of streams": func(t *testing.T, c *clinic, w *workers.Worker) {
			reports(c, w)
			times(60, func() {
				missing(c, w, 1)
				c.Began(c.open(t, 0, 0))
			})
			if c.barOf(w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"and so is an answer that is no report": func(t *testing.T, c *clinic, w *workers.Worker) {
			reports(c, w)
			times(60, func() {
				time.Sleep(time.Second)
				c.Reported(w, workers.Report{}, workers.Report{}, errors.New("/metrics: status 500"))
			})
			if c.barOf(w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"one that never reported is not missed": func(t *testing.T, c *clinic, w *workers.Worker) {
			missing(c, w, 60)
			if c.barOf(w, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"the last of its role stays in": func(t *testing.T, c *clinic, _ *workers.Worker) {
			lone := c.prefill[0]
			reports(c, lone)
			missing(c, lone, 60)
			if c.barOf(lone, workers.Stalled) > 0 {
				t.Error("it is barred")
			}
		},
		"a good probe lets it in": func(t *testing.T, c *clinic, w *workers.Worker) {
			reports(c, w)
			missing(c, w, 20)
			c.set(w, answer{})
			time.Sleep(beat + time.Second)
			if c.barOf(w, workers.Stalled) > 0 {
				t.Error("it is barred, though it answers")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := openClinic(t, cfg, 2)
				time.Sleep(3 * beat)
				for _, w := range []*workers.Worker{c.decode[0], c.prefill[0]} {
					c.set(w, dead)
				}
				f(t, c, c.decode[0])
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		never := cfg
		never.StaleTime = 0
		c := openClinic(t, never, 2)
		reports(c, c.decode[0])
		missing(c, c.decode[0], 60)
		if c.barOf(c.decode[0], workers.Stalled) > 0 {
			t.Error("it is barred, though that is turned off")
		}
	})
}
