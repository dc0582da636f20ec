package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

// The names under which the service manager hands sockets over
// (FileDescriptorName= in a socket unit).
const (
	socketData    = "data"
	socketMetrics = "metrics"
	socketHealth  = "health"
	socketAdmin   = "admin"
)

// sockets are those that were handed over, by name. What has been taken is out.
type sockets map[string][]net.Listener

// take returns the sockets of a name.
func (s sockets) take(name string) []net.Listener {
	taken := s[name]
	delete(s, name)
	return taken
}

// closeRest closes what nobody has taken, and returns its names.
func (s sockets) closeRest() (names []string) {
	for name, rest := range s {
		names = append(names, name)
		for _, ln := range rest {
			_ = ln.Close()
		}
	}
	slices.Sort(names)
	return names
}

// listen takes the listeners that were handed over, and opens the others. If
// one cannot be had, none stays open.
func (d *daemon) listen(ctx context.Context, handed sockets) error {
	var faults []error
	place := func(name string, l listener) (first net.Listener, more []net.Listener) {
		if taken := handed.take(name); len(taken) > 0 {
			d.hand(name, taken...)
			return taken[0], taken[1:]
		}
		ln, err := d.openOwn(ctx, name, l, handed)
		if err != nil {
			faults = append(faults, err)
		}
		return ln, nil
	}
	c := &d.cfg
	d.awaited = len(handed[socketData]) > 0
	d.data, d.moreData = place(socketData, c.dataListener())
	d.scrape, d.moreScrape = place(socketMetrics, c.metricsListener())
	if _, is := handed[socketHealth]; is || c.HealthCheckPort != 0 {
		d.probe, d.moreProbes = place(socketHealth, c.healthListener())
	}
	if err := d.listenAdmin(ctx, handed); err != nil {
		faults = append(faults, err)
	}
	if len(faults) == 0 {
		faults = append(faults, d.checkReach(d.cfg))
	}
	if names := handed.closeRest(); len(names) > 0 {
		d.log.Warn("sockets closed that nobody knows what to do with; the names are data, metrics, health and admin (FileDescriptorName=)",
			zap.Strings("names", names))
	}
	fault := errors.Join(faults...)
	if fault == nil {
		return nil
	}
	for _, ln := range d.listeners() {
		_ = ln.Close()
	}
	return asConfigFault(fault)
}

// listenAdmin opens the listeners of the admin API. A unix socket that was
// handed over is guarded by its mode, like one of our own; a port by its key.
func (d *daemon) listenAdmin(ctx context.Context, all sockets) (err error) {
	handed := all.take(socketAdmin)
	d.hand(socketAdmin, handed...)
	for _, ln := range handed {
		door := adminDoor{Listener: ln}
		if ln.Addr().Network() != unixNetwork {
			if len(d.cfg.AdminKeys) == 0 {
				return fmt.Errorf("admin socket %s of the service manager: a port needs --admin-api-key; every user of this host can reach it", ln.Addr())
			}
			door.guarded = true
		}
		d.adminHanded = append(d.adminHanded, door)
	}
	if d.cfg.AdminPort != 0 {
		if d.adminPort, err = d.openOwn(ctx, socketAdmin, d.cfg.adminListener(), all); err != nil {
			return err
		}
	}
	if len(handed) > 0 && d.cfg.AdminSocket == anySocket {
		return nil
	}
	open := func(path string) (net.Listener, error) {
		return d.openOwn(ctx, socketAdmin, listener{host: "unix:" + path}, all)
	}
	if d.adminSocket, d.noSocket, err = openAdminSocket(d.cfg.AdminSocket, open); err != nil {
		return fmt.Errorf("admin-socket: %w", err)
	}
	return nil
}

// listeners returns all that are open.
func (d *daemon) listeners() []net.Listener {
	all := slices.Concat(d.moreData, d.moreScrape, d.moreProbes)
	for _, ln := range []net.Listener{d.data, d.scrape, d.probe, d.adminPort, d.adminSocket} {
		if ln != nil {
			all = append(all, ln)
		}
	}
	for _, door := range d.adminHanded {
		all = append(all, door.Listener)
	}
	return all
}

const unixNetwork = "unix"

// socketPath returns the path of a host that is a unix socket.
func socketPath(host string) (path string, is bool) { return strings.CutPrefix(host, "unix:") }

// open opens l.
func (l listener) open(ctx context.Context) (net.Listener, error) {
	if path, is := socketPath(l.host); is {
		ln, err := listenUnix(ctx, path)
		if err != nil && l.hostFlag != "" {
			err = fmt.Errorf("%s: %w", l.hostFlag, err)
		}
		return ln, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(l.host, strconv.Itoa(l.port)))
	if err != nil {
		return nil, fmt.Errorf("%s %d: %w", l.portFlag, l.port, err)
	}
	return ln, nil
}

// validate reports what is wrong with l.
func (l listener) validate() error {
	var faults []error
	if l.port < 0 || l.port > 65535 {
		faults = append(faults, fmt.Errorf("%s: %d is not between 0 and 65535", l.portFlag, l.port))
	}
	if path, is := socketPath(l.host); is {
		if !filepath.IsAbs(path) {
			faults = append(faults, fmt.Errorf("%s: %q is not unix: and an absolute path", l.hostFlag, l.host))
		}
	} else if !isHost(l.host) && l.portFlag != "health-check-port" {
		faults = append(faults, fmt.Errorf("%s: %q is neither an address, a host name nor unix:/path", l.hostFlag, l.host))
	}
	return errors.Join(faults...)
}
