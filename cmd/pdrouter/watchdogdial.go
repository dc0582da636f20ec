package main

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// dial connects to the address, from one that is known before the other side sees
// it: a listener that has as many connections as it may have lets it in, because a
// full router is not a wedged one.
func (w *watchdog) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network == unixNetwork {
		from := &net.UnixAddr{Name: "@pdrouter-watchdog-" + rand.Text(), Net: unixNetwork}
		w.from.Store(&from.Name)
		return (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, address)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var fault error
		err := c.Control(func(fd uintptr) { fault = w.bind(int(fd), to.Addr()) })
		if err == nil {
			err = fault
		}
		return err
	}}
	return dialer.DialContext(ctx, network, address)
}

// bind gives a socket a port at the address, and notes it.
func (w *watchdog) bind(fd int, at netip.Addr) error {
	var from unix.Sockaddr = &unix.SockaddrInet6{Addr: at.As16()}
	if at.Unmap().Is4() {
		from = &unix.SockaddrInet4{Addr: at.Unmap().As4()}
	}
	if err := unix.Bind(fd, from); err != nil {
		return err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	port := 0
	switch b := bound.(type) {
	case *unix.SockaddrInet4:
		port = b.Port
	case *unix.SockaddrInet6:
		port = b.Port
	}
	text := netip.AddrPortFrom(at.Unmap(), uint16(port)).String() //nolint:gosec // a port
	w.from.Store(&text)
	return nil
}

// comesFrom reports whether a connection from there is the watchdog's last one.
func (w *watchdog) comesFrom(addr net.Addr) bool {
	from, text := w.from.Load(), addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		text = netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()
	}
	return from != nil && *from == text
}
