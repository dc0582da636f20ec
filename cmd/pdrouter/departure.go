package main

import (
	"context"
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

	// lastAnswer is how long metrics and admin have to be answered when another
	// process has taken over.
	lastAnswer = 5 * time.Second
)

// drain closes the listeners, lets the requests in flight have the grace period,
// and cuts the rest: a stream is told so in its last event. Serving is over since
// serving has ended.
func (d *daemon) drain(serving context.Context, srv *http.Server, cut context.CancelCauseFunc) {
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
	d.leaving.begin()
	d.answerLast(grace, taken)
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

// answerLast serves those who are connected still. A daemon that stops closes
// connections on which nothing is asked. Where another process has taken over,
// they are open until clients close them, as each answer tells them to, or for as
// long as anybody may be idle: nobody loses a request that is on its way. It ends
// sooner if the successor is told to stop.
func (d *daemon) answerLast(grace context.Context, taken bool) {
	if !taken {
		d.leaving.settle(grace, linger)
		return
	}
	settling, stop := context.WithCancel(grace)
	defer stop()
	var heeding sync.WaitGroup
	heir := d.upgrading.heir
	heeding.Go(func() {
		if _, err := heir.hear(sayStop); err == nil {
			stop()
		}
	})
	d.leaving.settle(settling, d.cfg.IdleConnection)
	_ = heir.conn.SetReadDeadline(time.Now())
	heeding.Wait()
	if settling.Err() != nil && grace.Err() == nil {
		d.before.stop()
	}
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
	err := serveOne(srv, ln)
	if !stopLeaving() {
		<-answered
	}
	return err
}
