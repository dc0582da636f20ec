package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"pdrouter/systemd"
)

// hand notes listeners, for a successor: those of the service manager under its
// names for them, those of our own by what the configuration says of them, so that
// a successor takes them only if its configuration says the same.
func (d *daemon) hand(name string, listeners ...net.Listener) {
	for _, ln := range listeners {
		d.handed = append(d.handed, systemd.Named{Name: name, Listener: ln})
	}
}

// own returns the name by which a listener of our own is handed over.
func (l listener) own(name string) string {
	return strings.ReplaceAll(fmt.Sprint(name, " ", l.host, " ", l.port), ":", "_") // a colon ends a name
}

// openOwn opens l, or takes it if the process before this one had it open.
func (d *daemon) openOwn(ctx context.Context, name string, l listener, handed sockets) (ln net.Listener, err error) {
	name = l.own(name)
	if taken := handed.take(name); len(taken) == 1 {
		ln = taken[0]
		if path, is := socketPath(l.host); is {
			ln, err = adopt(ln, path)
		}
	} else {
		ln, err = l.open(ctx)
	}
	if err == nil {
		d.hand(name, ln)
	}
	return ln, err
}

// adopt makes a socket that was handed over one of our own, once it is kept no
// more.
func adopt(ln net.Listener, path string) (net.Listener, error) {
	file, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	s := &socketListener{Listener: ln, path: path, file: file}
	s.kept.Store(true)
	return s, nil
}

// keepSockets says whether unix sockets stay where they are when they are closed.
func (d *daemon) keepSockets(kept bool) {
	for _, n := range d.handed {
		if s, ok := n.Listener.(*socketListener); ok {
			s.kept.Store(kept)
		}
	}
}

// SyscallConn implements syscall.Conn.
func (s *socketListener) SyscallConn() (syscall.RawConn, error) {
	conn, ok := s.Listener.(syscall.Conn)
	if !ok {
		return nil, errors.New("it is no socket")
	}
	return conn.SyscallConn()
}
