package main

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"pdrouter/workers"
)

// checkReach reports listeners of the admin API that by c are open to whom nobody
// meant to let in. The flags have been checked before; what counts is where the
// sockets are, which the service manager may have opened.
func (d *daemon) checkReach(c Config) error {
	var faults []error
	if access := c.adminDataAccess(); c.AdminOnData && len(access.Keys) == 0 {
		for _, ln := range append([]net.Listener{d.data}, d.moreData...) {
			if !isLocal(ln) {
				faults = append(faults, fmt.Errorf("admin-on-data-listener: without a key whoever reaches %s could send prompts anywhere; give --admin-api-key or --api-key", ln.Addr()))
			}
		}
	}
	doors := slices.Clone(d.adminHanded)
	if d.adminPort != nil {
		doors = append(doors, adminDoor{Listener: d.adminPort})
	}
	for _, door := range doors {
		if !isLocal(door) && d.tls.of(socketAdmin) == nil {
			faults = append(faults, fmt.Errorf("admin socket %s is not on loopback, and the key would cross the network in clear; give --tls-listeners data admin", door.Addr()))
		}
	}
	return errors.Join(faults...)
}

// isLocal reports whether only this host reaches a listener.
func isLocal(ln net.Listener) bool {
	tcp, is := ln.Addr().(*net.TCPAddr)
	return !is || workers.IsLoopback(tcp.IP.String())
}
