package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"pdrouter/systemd"

	"go.uber.org/zap"
)

// A predecessor is the process whose place this one takes. It is nil where there
// is none; then its methods do nothing.
type predecessor struct {
	*link
	index  io.ReadCloser // what it knows of the workers' caches and speeds
	estate *estate

	served bool          // this process has taken its place
	main   chan struct{} // closed when the service manager knows, or never will
	gone   chan struct{} // closed when it has ended
	hurry  atomic.Bool   // it was told to
}

// findPredecessor returns it; nil: this process was not started as a successor.
func findPredecessor() (*predecessor, error) {
	files, is := systemd.Succeeding()
	if !is {
		return nil, nil
	}
	if len(files) != 2 {
		return nil, fmt.Errorf("take over from another process: it gave %d files, want 2", len(files))
	}
	l, err := linkOf(files[0])
	if err != nil {
		return nil, err
	}
	m, err := l.hear(sayEstate)
	if err == nil && m.Estate == nil {
		err = errors.New("it left nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("take over from another process: %w", err)
	}
	return &predecessor{link: l, index: files[1], estate: m.Estate, main: make(chan struct{}), gone: make(chan struct{})}, nil
}

// failed tells why this process will not take its place, if it has not.
func (b *predecessor) failed(err error) {
	if b != nil && err != nil && !b.served {
		_ = b.say(message{Say: sayFailed, Why: oneLine(err)}) // it sees our end too
	}
}

// isServed tells it that its place is taken.
func (b *predecessor) isServed() {
	if b != nil {
		_ = b.say(message{Say: sayServing}) // it sees our end too
	}
}

// called returns cfg with what it called its workers.
func (b *predecessor) called(cfg Config) Config {
	if b != nil {
		cfg.Workers.Names = b.estate.Names
	}
	return cfg
}

// follow returns when it has ended, or ctx has.
func (b *predecessor) follow(ctx context.Context) error {
	if b == nil {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = b.conn.SetReadDeadline(time.Now()) })()
	_, err := b.hear(sayMain)
	close(b.main)
	for err == nil {
		_, err = b.hear()
	}
	if hungUp(err) {
		close(b.gone)
	}
	return nil
}

// isMain returns when this process is the service's main one, or ctx has ended.
func (b *predecessor) isMain(ctx context.Context) {
	if b == nil {
		return
	}
	select {
	case <-b.main:
	case <-ctx.Done():
	}
}

// stop tells it to wait for nobody but the requests that it runs.
func (b *predecessor) stop() {
	if b != nil && !b.hurry.Swap(true) {
		_ = b.say(message{Say: sayStop}) // it may have ended
	}
}

// outlive returns when it has ended, or ctx has: this process's end may be that of
// all of the service's.
func (b *predecessor) outlive(ctx context.Context, log *zap.Logger) {
	if b == nil {
		return
	}
	select {
	case <-b.gone:
		return
	default:
	}
	log.Info("waiting for the process before this one to end")
	select {
	case <-b.gone:
	case <-ctx.Done():
	}
}

// errNotYet is why a process ends that was stopped before it served.
var errNotYet = errors.New("stopped before it had taken over")

// takeOver returns when this process is to serve: at once, unless it is a
// successor. Then it has looked at each worker, and has what was left to it.
func (d *daemon) takeOver(ctx context.Context) error {
	b := d.before
	if b == nil {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = b.conn.SetReadDeadline(time.Now()) })()
	if !d.awaitFirstRound(ctx) || !d.awaitReports(ctx) {
		return errNotYet
	}
	if err := b.say(message{Say: sayReady}); err != nil {
		return fmt.Errorf("take over from another process: %w", err)
	}
	m, err := b.hear(sayYours)
	if err == nil && m.Estate == nil {
		err = errors.New("it left nothing")
	}
	switch {
	case ctx.Err() != nil:
		return errNotYet
	case err != nil:
		return fmt.Errorf("take over from another process: %w", err)
	}
	d.inherit(m.Estate)
	b.served = true
	d.keepSockets(false)
	return nil
}

// awaitReports returns when each worker that is ready has been read once, so that
// it is known who they are and how full; of one that hangs it is not known later
// either.
func (d *daemon) awaitReports(ctx context.Context) (goOn bool) {
	enough := time.NewTimer(d.cfg.Workers.ProbeTimeout)
	defer enough.Stop()
	tick := time.NewTicker(lookedEach)
	defer tick.Stop()
	for !d.registry.Read() {
		select {
		case <-tick.C:
		case <-enough.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// remember has what was known before known again: from the process before this
// one, or from the file.
func (d *daemon) remember() {
	switch {
	case d.keeper == nil:
	case d.before != nil:
		d.keeper.LoadFrom(d.before.index)
	default:
		d.keeper.Load()
	}
	if d.before != nil {
		_ = d.before.index.Close()
	}
}
