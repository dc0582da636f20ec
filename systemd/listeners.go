package systemd

import (
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// Listeners returns the sockets that were opened for this process, by the names
// that their units give them (FileDescriptorName=). Their order says nothing: it
// changes when units are restarted. What is no stream socket is closed.
func Listeners() map[string][]net.Listener {
	all := map[string][]net.Listener{}
	for _, file := range activation.Files(true) {
		ln, err := net.FileListener(file)
		_ = file.Close() // ln has a copy
		if err != nil {
			continue
		}
		if u, ok := ln.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false) // it is its unit's
		}
		all[file.Name()] = append(all[file.Name()], ln)
	}
	return all
}
