package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// afterFirstLook lets requests wait until each worker has been looked at: those
// that waited in the sockets while the router was restarted would else be told
// that no worker is ready, for as long as a look takes. Probes of the router itself
// are answered at once.
func (d *daemon) afterFirstLook(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isProbe(r.URL.Path) {
			d.awaitLooks(r.Context())
		}
		next.ServeHTTP(w, r)
	})
}

// isProbe reports whether a path asks how the router itself is.
func isProbe(path string) bool {
	return slices.Contains([]string{"/liveness", "/readiness", "/health"}, strings.TrimSuffix(path, "/"))
}

// awaitLooks waits for the first look at each worker, and, at a socket that the
// service manager holds, until it is known which engines are those of before the
// restart, and how full. Once that is so, a worker that is added keeps nobody
// waiting.
func (d *daemon) awaitLooks(ctx context.Context) {
	if d.looked.Load() || !d.awaitFirstRound(ctx) || d.awaited && !d.awaitReports(ctx) {
		return
	}
	d.looked.Store(true)
}
