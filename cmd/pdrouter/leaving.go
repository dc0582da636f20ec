package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// linger is how long a connection on which nothing is asked stays open once the
	// listener is closed. A request may be on its way on it, and http.Server drops
	// what comes after Shutdown without an answer.
	linger = 250 * time.Millisecond

	// settleLook is the time between two looks at them.
	settleLook = 10 * time.Millisecond
)

// A leaving is the connections of a server that is to stop without a request
// being lost: no further ones are taken, each is told with the next answer that it
// is the last one, and those on which nothing is asked for a while are closed.
//
// The zero value is ready to use.
type leaving struct {
	begun atomic.Bool

	mu        sync.Mutex // guards the following
	listeners []net.Listener
	quiet     map[net.Conn]time.Time // since when nothing is asked
	asking    map[net.Conn]struct{}
}

// A door is a listener that a leaving closes: for http.Server that is no fault.
type door struct {
	net.Listener
	l *leaving
}

// Accept is that of the listener.
func (d door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil && d.l.begun.Load() {
		return nil, http.ErrServerClosed
	}
	return conn, err
}

// at returns ln for the server to listen at.
func (l *leaving) at(ln net.Listener) net.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, ln)
	if l.begun.Load() {
		_ = ln.Close()
	}
	return door{ln, l}
}

// note is the server's ConnState.
func (l *leaving) note(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quiet == nil {
		l.quiet, l.asking = map[net.Conn]time.Time{}, map[net.Conn]struct{}{}
	}
	delete(l.quiet, conn)
	delete(l.asking, conn)
	switch state {
	case http.StateNew, http.StateIdle:
		l.quiet[conn] = time.Now()
	case http.StateActive:
		l.asking[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
	}
}

// last tells clients that an answer is the last one on its connection.
func (l *leaving) last(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// begin closes the listeners. What has not been accepted waits for who listens at
// the same sockets next.
func (l *leaving) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun.Store(true)
	for _, ln := range l.listeners {
		_ = ln.Close()
	}
}

// settle returns when nothing is asked any more and no connection is left that was
// quiet for less than that long, or ctx has ended. 0: they may be quiet for ever.
func (l *leaving) settle(ctx context.Context, linger time.Duration) {
	tick := time.NewTicker(settleLook)
	defer tick.Stop()
	for !l.settled(linger) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// settled closes what has been quiet for long, and reports whether that was all.
func (l *leaving) settled(linger time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn, since := range l.quiet {
		if linger > 0 && time.Since(since) > linger {
			delete(l.quiet, conn)
			_ = conn.Close()
		}
	}
	return len(l.quiet)+len(l.asking) == 0
}

// abandon closes the connections on which nothing is asked: http.Server.Shutdown
// waits five seconds for those on which nothing has been asked yet.
func (l *leaving) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.quiet {
		_ = conn.Close()
	}
}
