package survey

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// IsLoopback reports whether a host is reached from this host only.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// IsHere reports whether a host is this one: loopback, its name, or an address that
// it has.
func IsHere(host string) bool {
	if name, err := os.Hostname(); err == nil && strings.EqualFold(name, host) || IsLoopback(host) {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ours, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(ours, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == addr.Unmap().WithZone("")
	})
}
