package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"pdrouter/keys"
)

// An Access says who may use the API over one listener.
type Access struct {
	// Keys are the bearer keys of which one must be sent. Empty: whoever
	// reaches the listener may, so that it has to be a unix socket, whose
	// mode says who that is, or on loopback.
	Keys keys.Set

	// Loopback is set for a listener on loopback without keys. A page in a
	// browser on this host may reach it under a name that it has bound to
	// 127.0.0.1, so only requests for a loopback address are answered.
	Loopback bool
}

// check reports why r is refused, if it is, else the name of its key.
func (a Access) check(r *http.Request) (name string, err error) {
	// A browser sends requests for any page that it shows.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return "", &Error{Status: http.StatusForbidden, Code: "FORBIDDEN", Message: "A page of another origin may not ask this."}
	}
	name, known := a.Keys.Find(r.Header.Get("Authorization"))
	switch {
	case len(a.Keys) > 0 && !known:
		return "", &Error{
			Status: http.StatusUnauthorized, Code: "UNAUTHORIZED", Message: "A valid admin key is needed: Authorization: Bearer KEY.",
			header: http.Header{"Www-Authenticate": {"Bearer"}},
		}
	case a.Loopback && !isLoopback(r.Host):
		return "", &Error{Status: http.StatusForbidden, Code: "FORBIDDEN", Message: "Without a key, only requests for a loopback address are answered here."}
	}
	return name, nil
}

// isLoopback reports whether the Host of a request is this host's own.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}
