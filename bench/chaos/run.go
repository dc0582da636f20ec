package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// run runs all dialects, one after the other, and returns what was wrong.
func run(ctx context.Context, o options, out io.Writer) error {
	fmt.Fprintf(out, "seed %d (go run ./bench/chaos -seed %d -duration %v)\n", o.seed, o.seed, o.duration)
	dir, err := logDirectory(o.logs)
	if err != nil {
		return err
	}
	router := o.router
	simExe := router
	if router == "" {
		if simExe, err = build(ctx, dir, false); err != nil {
			return err
		}
		router = simExe
	}
	if o.race {
		if router, err = build(ctx, dir, true); err != nil {
			return err
		}
	}
	var all []error
	for i, dialect := range o.dialects {
		t := &trial{
			options: o, dialect: dialect, length: o.duration / time.Duration(len(o.dialects)), seed: o.seed + uint64(i)<<32,
			dir: dir, sim: simExe, exe: router, out: out, faults: &faults{}, tally: newTally(),
		}
		if err := t.run(ctx); err != nil {
			all = append(all, fmt.Errorf("%s: %w", dialect, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	err = errors.Join(all...)
	if err != nil {
		return fmt.Errorf("%w\nseed %d; logs are in %s", err, o.seed, dir)
	}
	if o.logs == "" {
		return os.RemoveAll(dir)
	}
	return nil
}

func logDirectory(asked string) (string, error) {
	if asked == "" {
		return os.MkdirTemp("", "chaos-")
	}
	if err := os.MkdirAll(asked, 0o755); err != nil {
		return "", err
	}
	return filepath.Abs(asked)
}

// A trial is the run of one dialect.
type trial struct {
	options
	dialect  string
	length   time.Duration
	seed     uint64 // of this dialect
	dir      string
	sim, exe string // binaries
	out      io.Writer

	fleet    *fleet
	crowd    *crowd
	faults   *faults
	tally    *tally
	baseline page // of the router at rest, before anything
	began    time.Time
}

// run is the life of a trial. It returns all that was wrong.
func (t *trial) run(ctx context.Context) error {
	var err error
	t.fleet, err = newFleet(ctx, t.dialect, t.sim, t.exe, t.dir)
	defer t.fleet.close()
	if err != nil {
		return err
	}
	t.began = time.Now()
	t.crowd = newCrowd(t.fleet.base, t.clients, t.tally, t.faults)
	defer t.crowd.client.CloseIdleConnections()
	t.say("%d engines and a router (pid %d) on %s are up", len(t.fleet.engines), t.fleet.router.cmd.Process.Pid, t.fleet.base)
	if err := t.rest(ctx); err != nil {
		return fmt.Errorf("before anything has happened: %w", err)
	}
	if err := t.storm(ctx); err != nil {
		return errors.Join(t.faults.err(), err)
	}
	t.recover(ctx)
	t.provoke(ctx)
	t.wantRest(ctx)
	t.wantEnd()
	t.report()
	return errors.Join(ctx.Err(), t.faults.err())
}

// say writes one line with the time.
func (t *trial) say(format string, args ...any) {
	fmt.Fprintf(t.out, "%-9s %6.1fs  %s\n", t.dialect, time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// storm plays the schedule while clients send requests. Its error is one that
// makes going on pointless.
func (t *trial) storm(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begun := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		p := player{fleet: t.fleet, events: schedule(random(t.seed, 0), t.length), begun: begun, faults: t.faults, tally: t.tally}
		p.play(ctx)
	})
	for i := range t.clients {
		wg.Go(func() {
			r := requester{random(t.seed, uint64(i)+1), t.dialect}
			for n := 0; time.Since(begun) < t.length && ctx.Err() == nil; n++ {
				t.crowd.play(ctx, fmt.Sprintf("chaos-%d-%d", i, n), r.any())
				pause(ctx, time.Duration(r.Int64N(int64(t.pause)+1)))
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	t.watch(ended, stop)
	return context.Cause(ctx)
}

// watch tells how it goes until the storm has ended. It stops it when there is
// nothing more to be learnt.
func (t *trial) watch(ended <-chan struct{}, stop context.CancelCauseFunc) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			t.say("the storm is over: %s", t.tally.line())
			return
		case <-t.fleet.router.exited:
			stop(fmt.Errorf("the router has died: %w\n%s", t.fleet.router.err, endOf(t.fleet.router.log)))
			<-ended
			return
		case <-tick.C:
			t.say("%s", t.tally.line())
		}
		if n := t.faults.count(); n > 5*maxTold {
			stop(fmt.Errorf("%d faults are enough", n))
		}
	}
}

// wantEnd ends the router as systemd does, and reads what it has said.
func (t *trial) wantEnd() {
	if err := t.fleet.router.end(syscall.SIGTERM, 8*time.Second); err != nil {
		t.faults.add("after SIGTERM the router ended with %w", err)
	}
	if line := alarm(t.fleet.router.log); line != "" {
		t.faults.add("the log of the router has: %s", line)
	}
}

// report writes the closing figures.
func (t *trial) report() {
	t.say("how %d requests ended:", t.tally.requests())
	t.tally.table(t.out)
	if n := t.faults.count(); n > 0 {
		t.say("FAILED: %d faults, seed %d", n, t.options.seed)
		return
	}
	t.say("every invariant held, seed %d", t.options.seed)
}
