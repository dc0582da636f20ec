package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"pdrouter/metrics"
)

const (
	// mostConnections is how many connections of clients there may be if the
	// number of open files allows more: with TLS, one at rest costs up to 40 KiB.
	mostConnections = 65536

	// leastConnections is how many there may be, however few files.
	leastConnections = 64

	// filesBeside is how many files the daemon needs for all else: listeners,
	// snapshots, connections to workers that wait to be used.
	filesBeside = 512

	// sideConnections is how many there may be at each other kind of listener.
	sideConnections = 256
)

// A quota is how many connections the listeners of one kind may have open. One
// too many is reset as soon as it is accepted: in the queue of the kernel it would
// look open to its client, and to a load balancer's probes, and be answered by
// nobody. Refused, they can go elsewhere, and it is counted.
type quota struct {
	name    string
	most    int64
	open    atomic.Int64
	refused atomic.Uint64
	exempt  func(net.Addr) bool // nil: nobody is
}

// on returns ln with its accepted connections bounded. They are counted by note.
func (q *quota) on(ln net.Listener) net.Listener { return &quotaListener{ln, q} }

// note is what a server's ConnState has to call.
func (q *quota) note(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		q.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		q.open.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

type quotaListener struct {
	net.Listener
	quota *quota
}

// Accept implements net.Listener.
func (l *quotaListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.quota.open.Load() < l.quota.most || l.quota.exempt != nil && l.quota.exempt(conn.RemoteAddr()) {
			return conn, err
		}
		l.quota.refused.Add(1)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// connectionsFor returns how many connections of clients fit a number of open
// files: each needs one file, and two more to workers while it is served.
func connectionsFor(files uint64) int64 {
	if files < filesBeside {
		return leastConnections
	}
	return int64(min(max((files-filesBeside)/3, leastConnections), mostConnections)) //nolint:gosec // it is between these
}

// checkConnections reports a number of connections that is none.
func (c Config) checkConnections() error {
	if c.MaxConnections < 0 {
		return fmt.Errorf("max-connections: must be 0 or above, is %d", c.MaxConnections)
	}
	return nil
}

const (
	// mostStreams is how many requests one connection of HTTP/2 may have under
	// way. Those that it resets count until they have ended, and net/http ends a
	// connection that has too many of them (CVE-2023-44487).
	mostStreams = 250

	// pingAfter is the silence after which a client of HTTP/2 is asked whether it
	// is there, and pingTime how long it has to answer.
	pingAfter, pingTime = 30 * time.Second, 15 * time.Second
)

// http2 returns the limits of HTTP/2.
func (d *daemon) http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: mostStreams, SendPingTimeout: pingAfter, PingTimeout: pingTime, WriteByteTimeout: d.cfg.Router.ClientStall,
	}
}

// newQuotas returns those of all kinds of listeners, by their names.
func (d *daemon) newQuotas() map[string]*quota {
	most := int64(d.cfg.MaxConnections)
	var files syscall.Rlimit // the runtime has raised it as far as it may
	if most == 0 && syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		most = connectionsFor(files.Cur)
	}
	all := map[string]*quota{socketData: {name: socketData, most: max(most, 1), exempt: d.watchdog.comesFrom}}
	for _, name := range []string{socketMetrics, socketHealth, socketAdmin} {
		all[name] = &quota{name: name, most: sideConnections}
	}
	return all
}

// listenerStates returns how the listeners are, as metrics tell it.
func (d *daemon) listenerStates() []metrics.Listener {
	open := map[string]bool{socketData: true, socketMetrics: true, socketHealth: d.probe != nil, socketAdmin: len(d.adminDoors()) > 0}
	expiries := d.tls.expiries()
	var all []metrics.Listener
	for _, name := range tlsListeners() {
		if q := d.quotas[name]; open[name] {
			all = append(all, metrics.Listener{Name: name, Open: int(q.open.Load()), Most: int(q.most), Refused: q.refused.Load(), Expiry: expiries[name]})
		}
	}
	return all
}
