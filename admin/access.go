package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// An Access says who may use the API over one listener.
type Access struct {
	// Keys are the bearer keys of which one must be sent. Empty: whoever
	// reaches the listener may, so that it has to be a unix socket, whose
	// mode says who that is, or on loopback.
	Keys []string

	// Loopback is set for a listener on loopback without keys. A page in a
	// browser on this host may reach it under a name that it has bound to
	// 127.0.0.1, so only requests for a loopback address are answered.
	Loopback bool
}

// check reports why r is refused, if it is.
func (a Access) check(r *http.Request) error {
	// A browser sends requests for any page that it shows.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return &Error{Status: http.StatusForbidden, Code: "FORBIDDEN", Message: "A page of another origin may not ask this."}
	}
	switch {
	case len(a.Keys) > 0 && !a.knows(r.Header.Get("Authorization")):
		return &Error{
			Status: http.StatusUnauthorized, Code: "UNAUTHORIZED", Message: "A valid admin key is needed: Authorization: Bearer KEY.",
			header: http.Header{"Www-Authenticate": {"Bearer"}},
		}
	case a.Loopback && !isLoopback(r.Host):
		return &Error{Status: http.StatusForbidden, Code: "FORBIDDEN", Message: "Without a key, only requests for a loopback address are answered here."}
	}
	return nil
}

// knows compares with every key, in a time that says nothing about them: their
// digests are compared, because they have one length.
func (a Access) knows(authorization string) bool {
	scheme, key, _ := strings.Cut(authorization, " ")
	sent, found := sha256.Sum256([]byte(strings.TrimSpace(key))), 0
	for _, k := range a.Keys {
		known := sha256.Sum256([]byte(k))
		found |= subtle.ConstantTimeCompare(known[:], sent[:])
	}
	return found == 1 && strings.EqualFold(scheme, "Bearer")
}

// isLoopback reports whether the Host of a request is this host's own.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}
