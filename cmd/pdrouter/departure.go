package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"pdrouter/router"

	"go.uber.org/zap"
)

const (
	// cutTime is how long requests have to end that the grace period has cut.
	cutTime = 5 * time.Second

	// lastCall is for how long requests are answered that come on connections
	// which were there when the listener was closed: they may be on their way.
	lastCall = 250 * time.Millisecond

	// lastCallLook is the time between two looks whether all of these are closed.
	lastCallLook = 20 * time.Millisecond

	// lastAnswer is how long metrics and admin have to be answered when another
	// process has taken over.
	lastAnswer = 5 * time.Second
)

// A departure is how a daemon stops to take requests.
type departure struct {
	mu    sync.Mutex // guards the following
	doors []net.Listener
	shut  bool
}

// enter notes a listener, which leave closes. It reports false if that was done.
func (p *departure) enter(ln net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shut {
		p.doors = append(p.doors, ln)
	}
	return !p.shut
}

// leave closes the listeners. What waits in the kernel's queue is for whoever
// else has the socket.
func (p *departure) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	for _, ln := range p.doors {
		_ = ln.Close()
	}
}

func (p *departure) hasLeft() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shut
}

// closing has clients close their connections, once there is no listener any
// more: the next one is another process's.
func (p *departure) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.hasLeft() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// drain closes the listeners, lets the requests in flight have the grace period,
// and cuts the rest: a stream is told so in its last event. Serving is over since
// serving has ended.
func (d *daemon) drain(serving context.Context, srv *http.Server, idle *unasked, cut context.CancelCauseFunc) {
	taken := hasLeft(serving)
	ctx := context.WithoutCancel(serving)
	limit := d.current.Load().ShutdownGrace
	flying := zap.Int("in_flight", len(d.handler.Ages()))
	if taken {
		d.log.Info("another process serves: this one ends with its requests", flying, zap.Duration("grace", limit))
	} else {
		d.log.Info("stopping: no new requests", flying, zap.Duration("grace", limit))
		d.handler.Drain()
		d.before.stop()
	}
	grace, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d.departure.leave()
	d.answerLast(grace, idle, taken)
	defer d.before.outlive(grace, d.log)
	if srv.Shutdown(grace) == nil {
		d.log.Info("stopped: every request has ended")
		return
	}
	d.log.Warn("stopping: grace period is over, ending what is left", zap.Int("in_flight", len(d.handler.Ages())))
	cut(router.ErrDrained)
	last, cancel := context.WithTimeout(ctx, cutTime)
	defer cancel()
	if srv.Shutdown(last) != nil {
		_ = srv.Close()
	}
}

// answerLast serves those who are connected still. Where another process has
// taken over, that is until they close their connections, as each answer tells
// them to, or are idle for as long as anybody may be: nobody loses a request that
// is on its way. It ends sooner if the successor is told to stop. A daemon that
// stops waits for what is on its way only.
func (d *daemon) answerLast(grace context.Context, idle *unasked, taken bool) {
	if !taken {
		timer := time.NewTimer(lastCall)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-grace.Done():
		}
		return
	}
	var heeding sync.WaitGroup
	heir := d.upgrading.heir
	told := make(chan struct{})
	heeding.Go(func() {
		if _, err := heir.hear(sayStop); err == nil {
			close(told)
		}
	})
	defer heeding.Wait()
	defer func() { _ = heir.conn.SetReadDeadline(time.Now()) }()
	tick := time.NewTicker(lastCallLook)
	defer tick.Stop()
	for idle.count() > 0 {
		select {
		case <-tick.C:
		case <-grace.Done():
			return
		case <-told:
			d.before.stop()
			return
		}
	}
}

// serveOne serves one data listener until it, or srv, is closed.
func (d *daemon) serveOne(srv *http.Server, ln net.Listener) (err error) {
	if !d.departure.enter(ln) {
		return http.ErrServerClosed
	}
	if srv.TLSConfig == nil || ln.Addr().Network() == unixNetwork {
		err = srv.Serve(ln)
	} else {
		err = srv.ServeTLS(ln, "", "")
	}
	if d.departure.hasLeft() && errors.Is(err, net.ErrClosed) {
		return http.ErrServerClosed
	}
	return err
}

// serveUntil serves a listener that has no long requests until ctx ends. It is
// closed sooner, and who has asked already is answered, if another process has
// taken over.
func (d *daemon) serveUntil(ctx, serving context.Context, srv *http.Server, ln net.Listener) error {
	answered := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		if !hasLeft(serving) {
			_ = srv.Close()
		}
	})
	defer stop()
	stopLeaving := context.AfterFunc(serving, func() {
		defer close(answered)
		if !hasLeft(serving) {
			return
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(serving), lastAnswer)
		defer cancel()
		if srv.Shutdown(last) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(ln)
	if !stopLeaving() {
		<-answered
	}
	return err
}
