package sim

import (
	"fmt"
	"net"
	"sync"
)

// A listener remembers its open connections, so that an engine can die as a
// killed process does: by resetting all of them.
type listener struct {
	net.Listener

	mu    sync.Mutex
	conns map[*conn]struct{}
	dead  bool // connections end with a reset
}

// A conn is one connection of a listener.
type conn struct {
	*net.TCPConn
	l *listener
}

// listen opens a TCP listener.
func listen(addr string) (*listener, error) {
	l, err := net.Listen("tcp", addr) //nolint:noctx // it returns at once
	if err != nil {
		return nil, fmt.Errorf("simulated engine: %w", err)
	}
	return &listener{Listener: l, conns: map[*conn]struct{}{}}, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tracked := &conn{TCPConn: c.(*net.TCPConn), l: l}
	l.mu.Lock()
	l.conns[tracked] = struct{}{}
	l.mu.Unlock()
	return tracked, nil
}

// kill makes every connection end with a reset when it is closed.
func (l *listener) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	dead := c.l.dead
	c.l.mu.Unlock()
	if dead {
		_ = c.SetLinger(0)
	}
	return c.TCPConn.Close()
}

// open counts what is being served, and lets the last one out be waited for.
type open struct {
	mu     sync.Mutex
	n      int
	closed bool
	empty  chan struct{}
}

// enter reports whether the engine still serves; then leave must follow.
func (o *open) enter() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.n++
	return true
}

func (o *open) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n--; o.n == 0 && o.closed {
		close(o.empty)
	}
}

// close lets nothing in any more and waits until all are out.
func (o *open) close() {
	o.mu.Lock()
	o.closed = true
	if o.n == 0 {
		o.mu.Unlock()
		return
	}
	o.empty = make(chan struct{})
	o.mu.Unlock()
	<-o.empty
}
