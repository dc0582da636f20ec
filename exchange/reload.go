package exchange

import (
	"crypto/tls"
	"time"
)

// A manner is how connections to a worker are opened. It is replaced, not
// changed.
type manner struct {
	timeout time.Duration
	base    *tls.Config // as configured
	tls     *tls.Config // made to fit the worker; nil: plain
}

// Reload has connections opened by cfg from now on: its ConnectTimeout,
// IdleTimeout and TLS; the bounds stay as they are. If TLS is another value
// than before, those opened in the old manner are closed when they are idle, and
// exchanges that are under way go on.
func (p *Peer) Reload(cfg Config) {
	old := p.manner.Load()
	next := &manner{timeout: cfg.ConnectTimeout, base: cfg.TLS, tls: old.tls}
	if old.tls != nil && old.base != cfg.TLS {
		next.tls = clientTLS(cfg.TLS, p.name)
	}
	p.pool.idleTimeout.Store(int64(cfg.IdleTimeout))
	p.manner.Store(next)
	if next.tls != old.tls {
		for _, c := range p.pool.empty() {
			p.pool.drop(c)
		}
	}
}

// give gives back a connection on which nothing is left to read or write.
func (p *Peer) give(c *conn) {
	if c.tls != p.manner.Load().tls {
		p.pool.drop(c) // it shows a certificate, or trusts one, that is not used any more
		return
	}
	p.pool.put(c, time.Now())
}
