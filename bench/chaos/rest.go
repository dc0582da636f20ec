package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"pdrouter/sim"
)

// restLimit is how long it may take until nothing is left: the lease of the
// engines and their patience are 3 s each.
const restLimit = 15 * time.Second

// slack is how many goroutines and open files there may be more at the end than
// at the beginning: connections that are kept for a while.
const slack = 10

// The most memory that the router may have at the end, in bytes; the race
// detector needs about eight times the usual.
const (
	maxMemory     = 256 << 20
	maxRaceMemory = 2 << 30
)

// restGauges are what is 0 when no request is under way (I8).
func restGauges() []string {
	return []string{
		"smg_http_connections_active", "smg_http_inflight_request_age_count",
		"smg_worker_requests_active", "pdrouter_buffered_request_bytes",
	}
}

// rest warms everything up, and then notes what the router is at rest.
func (t *trial) rest(ctx context.Context) error {
	if failed := t.batch(ctx, requester{random(t.seed, 1<<22), t.dialect}); failed > 0 {
		return errors.Join(fmt.Errorf("%d of %d requests failed", failed, batchSize), t.faults.err())
	}
	t.crowd.client.CloseIdleConnections()
	return eventually(ctx, 5*time.Second, func() error {
		p, err := scrape(ctx, t.fleet.client, t.fleet.metrics)
		if err != nil {
			return err
		}
		t.baseline = p
		return nothingUnderWay(p, false)
	})
}

// nothingUnderWay wants each gauge of work in progress to be there, and 0, and
// each leg to be counted. What a worker counted that was removed is forgotten
// with it.
func nothingUnderWay(p page, forgotten bool) error {
	var left []error
	for _, gauge := range restGauges() {
		if !p.has(gauge) {
			left = append(left, fmt.Errorf("there is no gauge %s", gauge))
		}
		if n := p.sum(gauge); n != 0 {
			left = append(left, fmt.Errorf("gauge %s is %v", gauge, n))
		}
	}
	// Each attempt has two legs, and each leg is counted at its end.
	for _, role := range []string{sim.Prefill, sim.Decode} {
		if n := p.sum("smg_pd_kv_connector_mode_total") - p.sum("pdrouter_legs_total", `role="`+role+`"`); n < 0 || n > 0 && !forgotten {
			left = append(left, fmt.Errorf("%v %s legs have not been counted at their end", n, role))
		}
	}
	return errors.Join(left...)
}

// wantRest wants that nothing is left of it all.
func (t *trial) wantRest(ctx context.Context) {
	t.crowd.client.CloseIdleConnections()
	began := time.Now()
	var p page
	err := eventually(ctx, restLimit, func() (err error) {
		if p, err = scrape(ctx, t.fleet.client, t.fleet.metrics); err != nil {
			return err
		}
		return errors.Join(t.left(ctx), nothingUnderWay(p, true), t.grown(p))
	})
	if err != nil {
		t.faults.add("%v after the last request there is left: %w", restLimit, err)
		return
	}
	t.say("at rest after %.1f s: goroutines %v (%v at first), open files %v (%v), memory %.0f MB (%.0f)", time.Since(began).Seconds(),
		p.sum("go_goroutines"), t.baseline.sum("go_goroutines"), p.sum("process_open_fds"), t.baseline.sum("process_open_fds"),
		p.sum("process_resident_memory_bytes")/(1<<20), t.baseline.sum("process_resident_memory_bytes")/(1<<20))
	t.wantNoViolations(ctx, p)
}

// left says what the engines have left.
func (t *trial) left(ctx context.Context) error {
	var left []error
	for _, e := range t.fleet.engines {
		left = append(left, e.left(ctx))
	}
	return errors.Join(left...)
}

// grown says what the router has more of than at the beginning.
func (t *trial) grown(p page) error {
	var grown []error
	for _, gauge := range []string{"go_goroutines", "process_open_fds"} {
		if n := p.sum(gauge) - t.baseline.sum(gauge); n > slack {
			grown = append(grown, fmt.Errorf("%s is %v, %v above where it was", gauge, p.sum(gauge), n))
		}
	}
	limit := float64(maxMemory)
	if t.race {
		limit = maxRaceMemory
	}
	if n := p.sum("process_resident_memory_bytes"); n > limit {
		grown = append(grown, fmt.Errorf("the router has %.0f MB of memory, want at most %.0f", n/(1<<20), limit/(1<<20)))
	}
	return errors.Join(grown...)
}

// wantNoViolations asks the engines what was done to them that must not be. What
// the router cannot see yet is only told.
func (t *trial) wantNoViolations(ctx context.Context, p page) {
	var recomputed, expired, reused uint64
	for _, e := range t.fleet.engines {
		counts := map[string]int{}
		for _, kind := range e.violations() {
			counts[kind]++
		}
		if len(counts) > 0 {
			t.faults.add("engine %d (%s) was misused: %s", e.number, e.role, inWords(counts))
		}
		s, err := e.state(ctx)
		if err != nil {
			t.faults.add("%w", err)
		}
		recomputed += e.gone.Recomputes + s.Stats.Recomputes
		expired += e.gone.ExpiredHolds + s.Stats.ExpiredHolds
		reused += e.gone.ReusedRooms + s.Stats.ReusedRooms
	}
	if reused > 0 {
		t.faults.add("%d rooms were used again", reused)
	}
	t.say("prompts that decode computed again: %d (the router counts %v); blocks that nobody pulled: %d times (the router counts %v)", recomputed,
		p.sum("smg_pd_kv_transfer_failures_total"), expired, p.sum("pdrouter_orphaned_handoffs_total"))
}

// alarm returns the first line of a log that must not be in it, if any.
func alarm(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		for _, word := range []string{"panic", "fatal error: ", "DATA RACE", `"level":"error"`} {
			if strings.Contains(line, word) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}
