package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"pdrouter/systemd"
	"pdrouter/workers"

	"go.uber.org/zap"
)

const (
	// statusEach is how often the service manager is told how the daemon is.
	statusEach = 5 * time.Second

	// lookedEach is how often it is looked whether the first round of probes is
	// over.
	lookedEach = 20 * time.Millisecond

	// extendBy is how much time is asked for at a time while requests run to
	// their end.
	extendBy = 10 * time.Second
)

// tellManager tells the service manager that the daemon is ready, once each
// worker has been looked at, and from then on how it is. When ctx ends, the daemon
// drains: it tells that, and asks for time until done is closed; unless another
// process is the service now. A successor tells nothing before it is the service.
func (d *daemon) tellManager(ctx context.Context, done <-chan struct{}) error {
	d.before.isMain(ctx)
	if d.awaitFirstRound(ctx) {
		d.manager.ready(d.tell, d.statusLine)
	}
	last := ""
	tick := time.NewTicker(statusEach)
	defer tick.Stop()
	for ctx.Err() == nil {
		if now := d.statusLine(); now != last {
			d.tell(systemd.Status(now))
			last = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	d.manager.stop()
	if hasLeft(ctx) {
		return nil
	}
	tick.Reset(time.Second)
	for {
		d.tell(systemd.Stopping(fmt.Sprintf("draining: %d requests run on, for %v at most", len(d.handler.Ages()), d.current.Load().ShutdownGrace)))
		d.tell(systemd.Extend(extendBy))
		select {
		case <-tick.C:
		case <-done:
			return nil
		}
	}
}

// awaitFirstRound returns when each worker has been looked at, or ctx has ended.
func (d *daemon) awaitFirstRound(ctx context.Context) (looked bool) {
	tick := time.NewTicker(lookedEach)
	defer tick.Stop()
	for !d.registry.Looked() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// tell logs that the service manager could not be told something. It is no
// reason to end.
func (d *daemon) tell(err error) {
	if err != nil {
		d.log.Warn("the service manager could not be told", zap.Error(err))
	}
}

// statusLine says in one line how the daemon is.
func (d *daemon) statusLine() string {
	var all, ready [2]int
	used, capacity := 0.0, 0.0
	for _, s := range d.registry.Statuses() {
		role := s.Worker.Role
		all[role]++
		if s.State == workers.Ready && !leftOut(s.Bars) {
			ready[role]++
		}
		if k := s.KVSpace; role == workers.Decode && k.Capacity > 0 {
			used, capacity = used+k.Used, capacity+k.Capacity
		}
	}
	crowd := d.registry.Crowd()
	parts := []string{
		fmt.Sprintf("ready %d/%d prefill", ready[workers.Prefill], all[workers.Prefill]),
		fmt.Sprintf("%d/%d decode", ready[workers.Decode], all[workers.Decode]),
	}
	if capacity > 0 {
		parts = append(parts, fmt.Sprintf("KV %.0f %%", 100*used/capacity))
	}
	parts = append(parts, fmt.Sprintf("%d running", crowd.Open))
	if n := crowd.Waiting(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", n))
	}
	if at := d.reload.failed.Load(); at != nil {
		parts = append(parts, "not reloaded at "+at.Format(time.TimeOnly)+": the configuration is invalid")
	}
	return strings.Join(parts, ", ")
}
