package workers

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// settleBootstrap settles at which address decode engines meet the prefill
// engine of w: the configured one, else the host of its URL, else what the
// engine says, and never a wildcard (sgl-project/sglang and
// ai-dynamo/dynamo#12026: decode then dials itself). A loopback address is
// taken only if every decode engine is on loopback too.
func (r *Registry) settleBootstrap(w *Worker, facts *Facts) error {
	told := facts.BootstrapHost
	for _, host := range []string{w.BootstrapHost, Hostname(w.URL), told} {
		if host != "" && !isWildcard(host) {
			facts.BootstrapHost = host
			break
		}
	}
	if facts.BootstrapHost == "" || isWildcard(facts.BootstrapHost) {
		return fmt.Errorf("no address at which decode engines reach its bootstrap server: the URL is %s and the engine says %q; set bootstrap-host for this worker", w.URL, told)
	}
	switch {
	case w.BootstrapPort == BootstrapNone:
		facts.BootstrapPort = 0
	case w.BootstrapPort > 0:
		facts.BootstrapPort = w.BootstrapPort
	}
	if !IsLoopback(facts.BootstrapHost) {
		return nil
	}
	if d := r.remoteDecode(); d != nil {
		return errors.New(stranded(facts.BootstrapHost, d))
	}
	return nil
}

// stranded says why nobody can use a bootstrap server on this loopback host.
func stranded(host string, decode *Worker) string {
	return fmt.Sprintf("its bootstrap server is on loopback (%s), where decode worker %s cannot reach it; set bootstrap-host for this worker", host, decode.URL)
}

// remoteDecode returns a decode worker that is not on this host, or nil.
func (r *Registry) remoteDecode() *Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.all {
		if d.isRemoteDecode() && !d.removed {
			return d
		}
	}
	return nil
}

func (w *Worker) isRemoteDecode() bool { return w.Role == Decode && !IsLoopback(Hostname(w.URL)) }

// strandedLocked looks again at the prefill workers which a decode worker that
// was just added cannot reach. What was configured has been checked; here it is
// about what engines told.
func (r *Registry) strandedLocked(added *Worker) []Event {
	var events []Event
	if !added.isRemoteDecode() {
		return nil
	}
	for _, p := range r.all {
		if p.Role == Prefill && p.ready && p.facts.Dialect == "sglang" && IsLoopback(p.facts.BootstrapHost) {
			events = append(events, r.recheckLocked(p, stranded(p.facts.BootstrapHost, added))...)
		}
	}
	return events
}

// Hostname returns the host of a worker's URL. That of a unix socket is
// localhost: it is on this host.
func Hostname(rawURL string) string {
	if strings.HasPrefix(rawURL, "unix:") {
		return "localhost"
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// IsLoopback reports whether host can be reached from this host only.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// isWildcard reports whether host is what one listens on, not what one dials.
func isWildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "*" || err == nil && addr.Unmap().IsUnspecified()
}
