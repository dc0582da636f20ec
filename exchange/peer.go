package exchange

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A Peer is one worker's address and its pool of connections.
type Peer struct {
	cfg     Config
	network string // "tcp" or "unix"
	address string
	host    string // of the Host header
	name    string // of the host in the URL, for certificates
	manner  atomic.Pointer[manner]
	pool    pool
	heads   sync.Pool // of *bufio.Reader, for reading heads
}

// NewPeer returns the peer at rawURL, which is http://host:port,
// https://host:port or unix:/path/of/socket. It opens no connection.
func NewPeer(rawURL string, cfg Config) (*Peer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// url.Error repeats the URL, and would repeat a password in it.
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err
		}
		return nil, fmt.Errorf("parse worker URL: %w", err)
	}
	p := &Peer{cfg: cfg}
	m := &manner{timeout: cfg.ConnectTimeout, base: cfg.TLS}
	p.pool.init(cfg)
	p.heads.New = func() any { return bufio.NewReader(nil) }
	if err := p.locate(u); err != nil {
		return nil, fmt.Errorf("worker URL %s: %w", u.Redacted(), err)
	}
	if u.Scheme == "https" {
		m.tls = clientTLS(cfg.TLS, p.name)
	}
	p.manner.Store(m)
	return p, nil
}

// locate takes the address from u.
func (p *Peer) locate(u *url.URL) error {
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("user, query and fragment have no meaning here")
	}
	if u.Scheme == "unix" {
		if u.Host != "" || u.Path == "" {
			return errors.New("want unix:/path")
		}
		p.network, p.address, p.host = "unix", u.Path, "localhost"
		return nil
	}
	if u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return errors.New("want scheme://host:port, without a path")
	}
	port := u.Port()
	switch u.Scheme {
	case "http":
		port = cmp.Or(port, "80")
	case "https":
		port = cmp.Or(port, "443")
	default:
		return fmt.Errorf("scheme %q: want http, https or unix", u.Scheme)
	}
	if !isTarget("/" + u.Host) {
		return errors.New("space or control character in the host")
	}
	p.name = u.Hostname()
	p.network, p.address, p.host = "tcp", net.JoinHostPort(u.Hostname(), port), u.Host
	return nil
}

// Do sends req and waits for the head of the answer. The caller must close the
// answer; ctx covers the exchange until then. Whatever goes wrong, nothing is
// sent a second time.
func (p *Peer) Do(ctx context.Context, req *Request) (*Answer, error) {
	a, err := p.Send(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := a.Await(); err != nil {
		return nil, err
	}
	return a, nil
}

// Send is the first half of Do. It returns when a connection stands and as much
// of req is written as the worker takes at once; the rest is written as it takes
// more. The answer has no head before Await has returned.
func (p *Peer) Send(ctx context.Context, req *Request) (*Answer, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Phase: Dial, Err: err}
	}
	c, err := p.connection(ctx)
	if err != nil {
		return nil, fault(ctx, Dial, err)
	}
	a := &Answer{ctx: ctx, peer: p, conn: c, stop: context.AfterFunc(ctx, c.abort)}
	a.send(req)
	return a, nil
}

// Close closes the idle connections. Exchanges go on; their connections, and
// those of later ones, are closed when they end.
func (p *Peer) Close() { p.pool.close() }

// Stats counts the connections to one worker.
type Stats struct {
	Open int // in use, idle, or being dialled
	Idle int
}

// Stats returns the state of the pool.
func (p *Peer) Stats() Stats { return p.pool.stats() }

// connection returns an idle connection or a new one.
func (p *Peer) connection(ctx context.Context) (*conn, error) {
	c, err := p.pool.take(time.Now())
	if c != nil || err != nil {
		return c, err
	}
	c, err = p.dial(ctx)
	if err != nil {
		p.pool.release()
		return nil, err
	}
	return c, nil
}

// dial opens a connection, on a stack of its own: the dialer's calls are deep,
// and the caller's stack, which may be an open stream's for hours, would stay as
// large as they made it.
func (p *Peer) dial(ctx context.Context) (c *conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err = p.connect(ctx)
	}()
	<-done // connect ends when ctx does
	return c, err
}

// connect opens a connection, TLS included.
func (p *Peer) connect(ctx context.Context) (*conn, error) {
	// The dialer is not shown the caller's deadline. It would set it on the
	// socket, where it passes a moment before ctx ends, and for that moment the
	// worker would seem to be at fault.
	m := p.manner.Load()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.timeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: vanished / 3, Interval: vanished / 3, Count: 2}}
	raw, err := dialer.DialContext(bounded, p.network, p.address)
	if err != nil {
		return nil, p.dialFault(bounded, m, err)
	}
	c, err := newConn(raw, &p.heads)
	if err == nil && m.tls != nil {
		err = c.secure(bounded, m.tls)
	}
	if err != nil {
		raw.Close()
		return nil, p.dialFault(bounded, m, err)
	}
	return c, nil
}

// dialFault tells our own bound from the worker's refusal. That the bound was a
// context's is hidden, lest it be taken for the caller's.
func (p *Peer) dialFault(bounded context.Context, m *manner, err error) error {
	late, ok := errors.AsType[net.Error](err)
	if bounded.Err() != nil || ok && late.Timeout() {
		return fmt.Errorf("no connection to %s within %v: %w", p.address, m.timeout, os.ErrDeadlineExceeded)
	}
	return err
}
