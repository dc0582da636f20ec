package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"pdrouter/admin"
	"pdrouter/systemd"

	"go.uber.org/zap"
)

// upgradeTime bounds an upgrade: the program has to start, and to look at each
// worker and read its report, which take 5 s each at most.
const upgradeTime = 30 * time.Second

// errLeft is with what cause a daemon stops serving that has been taken over from.
var errLeft = errors.New("another process has taken over")

// An upgrading is what a daemon needs to have a successor.
type upgrading struct {
	mu       sync.Mutex // held while one is under way
	program  program
	stopping <-chan struct{}         // closed when serving has ended
	leave    context.CancelCauseFunc // ends it
	heir     *link                   // to who has taken over; nil: nobody has
}

// Upgrade implements admin.Upgrader: it starts a successor and hands over to it.
func (d *daemon) Upgrade(ctx context.Context) (admin.Upgraded, error) {
	if !d.upgrading.mu.TryLock() {
		return admin.Upgraded{}, fmt.Errorf("%w: another upgrade is under way", admin.ErrNotNow)
	}
	defer d.upgrading.mu.Unlock()
	select {
	case <-d.upgrading.stopping:
		return admin.Upgraded{}, fmt.Errorf("%w: the daemon stops", admin.ErrNotNow)
	default:
	}
	began := time.Now()
	d.log.Info("upgrade: starting the program that is on disk now", zap.String("path", d.upgrading.program.path))
	pid, err := d.handOver(context.WithoutCancel(ctx))
	if err != nil {
		d.log.Error("upgrade failed: this process goes on", zap.Error(err), zap.Duration("after", time.Since(began)))
		return admin.Upgraded{}, err
	}
	took := time.Since(began)
	running := len(d.handler.Ages())
	d.log.Info("upgraded: another process serves", zap.Int("pid", pid), zap.Duration("took", took), zap.Int("in_flight", running))
	return admin.Upgraded{From: os.Getpid(), To: pid, Running: running, Seconds: took.Seconds()}, nil
}

// handOver returns the process that serves in place of this one. If it fails,
// there is none, and nothing has changed.
func (d *daemon) handOver(ctx context.Context) (pid int, err error) {
	l, theirs, err := newLinks()
	if err != nil {
		return 0, err
	}
	index, writing, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, theirs.Close(), l.conn.Close())
	}
	p := d.upgrading.program
	next, err := systemd.Command{Path: p.path, Args: p.args, Sockets: d.handed, Files: []*os.File{theirs, index}}.Start()
	_, _ = theirs.Close(), index.Close()
	if err != nil {
		return 0, errors.Join(err, writing.Close(), l.conn.Close())
	}
	defer next.Close()
	ctx, cancel := context.WithTimeout(ctx, upgradeTime)
	defer cancel()
	// Whatever is waited for ends with the upgrade's time, and if this process is
	// told to stop.
	giveUp := func() { _, _ = l.conn.Close(), writing.Close() }
	defer context.AfterFunc(ctx, giveUp)()
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-d.upgrading.stopping:
			giveUp()
		case <-done:
		}
	})
	err = d.bringUp(l, writing)
	close(done)
	watch.Wait()
	if err != nil {
		next.Kill()
		_ = l.conn.Close()
		return 0, d.whyNot(ctx, err)
	}
	d.left(l, next.PID)
	return next.PID, nil
}

// whyNot says for people why a successor does not serve.
func (d *daemon) whyNot(ctx context.Context, err error) error {
	select {
	case <-d.upgrading.stopping:
		return errors.New("the daemon was told to stop meanwhile")
	default:
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the new process was not ready within %v; it was ended", upgradeTime)
	case hungUp(err) || errors.Is(err, net.ErrClosed):
		return errors.New("the new process ended before it was ready; its log says why")
	}
	return err
}

// bringUp does the old process's part until the successor serves.
func (d *daemon) bringUp(l *link, index *os.File) error {
	var writing sync.WaitGroup
	writing.Go(func() {
		defer index.Close()
		if d.keeper != nil {
			_, _ = d.keeper.WriteTo(index) // what the successor misses of it, it says
		}
	})
	defer writing.Wait()
	defer index.Close() // so that nothing is waited for if it does not read
	if err := l.say(message{Say: sayEstate, Estate: d.roster()}); err != nil {
		return err
	}
	m, err := l.hear(sayReady, sayFailed)
	switch {
	case err != nil:
		return err
	case m.Say == sayFailed:
		return fmt.Errorf("the new process does not start: %s", m.Why)
	}
	if err := l.say(message{Say: sayYours, Estate: d.bequeath()}); err != nil {
		return err
	}
	_, err = l.hear(sayServing)
	return err
}

// left has this process end, when its requests have, and the successor be the
// service.
func (d *daemon) left(l *link, pid int) {
	d.retire()
	d.keepSockets(true)
	d.upgrading.heir = l         // it stays open: the successor sees our end in that of the link
	d.upgrading.leave(errLeft)   // and nothing more is told to the service manager
	d.tell(systemd.MainPID(pid)) // but this, before the successor tells anything
	if err := l.say(message{Say: sayMain}); err != nil {
		d.log.Error("the process that has taken over does not listen", zap.Error(err))
	}
}

// retire leaves the file of --index-snapshot to another process.
func (d *daemon) retire() {
	if d.keeper != nil {
		d.keeper.Retire()
	}
}

// mayLeave returns a context that ends with ctx, and when another process has
// taken over.
func (d *daemon) mayLeave(ctx context.Context) context.Context {
	serving, leave := context.WithCancelCause(ctx)
	d.upgrading.stopping, d.upgrading.leave = serving.Done(), leave
	return serving
}

// hasLeft reports whether ctx, that of serving, has ended because another process
// has taken over.
func hasLeft(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLeft) }
