package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// A step is one thing that is proved. It returns a figure for the table.
type step struct {
	name string
	do   func(*host) (figure string, err error)
}

// steps are those of a run, in their order.
func steps() []step {
	return []step{
		{"install: nothing is started", (*host).install},
		{"units: systemd warns of nothing", (*host).verify},
		{"exposure, as it runs", (*host).exposure},
		{"enable and start", (*host).start},
		{"a request is answered", (*host).firstAnswer},
		{"scraped by Prometheus", (*host).scrape},
		{"credentials are the service's alone", (*host).credentials},
		{"it writes where it may, only", (*host).writes},
		{"10 restarts under load", (*host).restarts},
		{"20 reloads under load", (*host).reloads},
		{"engines restarted under load, drained first", (*host).engineRestarts},
		{"the package upgraded under load", (*host).upgrade},
		{"kill -9 under load", (*host).crash},
		{"stopped (SIGSTOP) under load: watchdog", (*host).wedge},
		{"a wrong configuration: 78, and no loop", (*host).wrongConfig},
		{"the journal: priorities, no secret", (*host).journal},
		{"pdrouter.target stops it all", (*host).stopAll},
		{"purge leaves nothing", (*host).purge},
	}
}

// errNotBuilt is returned by a step for what this build cannot do.
var errNotBuilt = errors.New("not in this build")

// runSteps goes through the steps in the booted system.
func runSteps(ctx context.Context, out io.Writer) error {
	h := &host{ctx: ctx, before: map[string]bool{}}
	var failed []string
	began := time.Now()
	for _, s := range steps() {
		at := time.Now()
		figure, err := s.do(h)
		verdict := "ok"
		switch {
		case errors.Is(err, errNotBuilt):
			verdict, figure = "-", err.Error()
		case err != nil:
			verdict, figure = "FAIL", strings.TrimSpace(figure+" "+err.Error())
			failed = append(failed, s.name)
		}
		fmt.Fprintf(out, "%-4s  %-46s  %5.1f s  %s\n", verdict, s.name, time.Since(at).Seconds(), figure)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Fprintf(out, "%d steps in %.0f s\n", len(steps()), time.Since(began).Seconds())
	if len(failed) > 0 {
		if text, err := h.output( //nolint:contextcheck // it is h's
			"journalctl", "-u", unit, "--no-pager", "-n", "60", "-o", "short-precise"); err == nil {
			fmt.Fprintf(out, "\nthe end of the journal:\n%s\n", text)
		}
		return fmt.Errorf("failed: %s", strings.Join(failed, "; "))
	}
	return nil
}
