package exchange

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A pool holds the idle connections to one worker and counts the open ones.
// The connection used last is taken first: the rest then grow old and are
// closed, so that the pool shrinks to what is needed.
type pool struct {
	maxIdle, maxOpen int
	idleTimeout      atomic.Int64 // a time.Duration

	mu      sync.Mutex // guards the following
	idle    []*conn    // in the order in which they became idle
	open    int        // idle ones included
	closed  bool
	sweeper *time.Timer // set while idle is not empty
}

func (p *pool) init(cfg Config) {
	p.maxIdle, p.maxOpen = cfg.MaxIdle, cfg.MaxOpen
	p.idleTimeout.Store(int64(cfg.IdleTimeout))
}

// kept returns how long a connection may be idle.
func (p *pool) kept() time.Duration { return time.Duration(p.idleTimeout.Load()) }

// take returns an idle connection that is fit for use. Without one it returns
// nil, and the caller has the right to open a connection: to be given back by
// release, or by drop.
func (p *pool) take(now time.Time) (*conn, error) {
	for {
		c, err := p.pop()
		if c == nil || err != nil {
			return nil, err
		}
		if now.Sub(c.idleSince) < p.kept() && c.quiet() {
			return c, nil
		}
		p.drop(c)
	}
}

// pop returns the connection used last, or nil with an open one counted.
func (p *pool) pop() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		return c, nil
	}
	if p.open >= p.maxOpen {
		return nil, fmt.Errorf("%w: %d", ErrTooManyConnections, p.open)
	}
	p.open++
	return nil, nil
}

// put gives back a connection on which nothing is left to read or write.
func (p *pool) put(c *conn, now time.Time) {
	if !p.keep(c, now) {
		p.drop(c)
	}
}

func (p *pool) keep(c *conn, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.kept() == 0 || len(p.idle) >= p.maxIdle {
		return false
	}
	c.idleSince = now
	p.idle = append(p.idle, c)
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(p.kept(), p.sweep)
	}
	return true
}

// drop closes a connection that take returned or the caller opened.
func (p *pool) drop(c *conn) {
	c.close()
	p.release()
}

func (p *pool) release() {
	p.mu.Lock()
	p.open--
	p.mu.Unlock()
}

// sweep closes what has been idle for too long. Without it a worker that gets
// no more requests would keep its sockets.
func (p *pool) sweep() {
	for _, c := range p.expired(time.Now()) {
		p.drop(c)
	}
}

// expired removes and returns the connections that are too old at now, and sets
// the time of the next sweep.
func (p *pool) expired(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idleSince) >= p.kept() {
		n++
	}
	old := append([]*conn(nil), p.idle[:n]...)
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]

	p.sweeper = nil
	if kept > 0 {
		p.sweeper = time.AfterFunc(p.idle[0].idleSince.Add(p.kept()).Sub(now), p.sweep)
	}
	return old
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	p.mu.Unlock()
	for _, c := range p.empty() {
		p.drop(c)
	}
}

// empty removes and returns all idle connections.
func (p *pool) empty() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle
	p.idle = nil
	return idle
}

func (p *pool) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Open: p.open, Idle: len(p.idle)}
}
