package metrics

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Route counts the requests of one method and one path template.
type Route struct {
	m        *Metrics
	path     string
	requests prometheus.Counter
	duration prometheus.Observer
	ok       func() prometheus.Counter // of answers of status 200, which nearly all are
}

// Route binds a Route. The path is a template, never what a client sent.
func (m *Metrics) Route(method, path string) *Route {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodHead, http.MethodOptions:
	default:
		method = "OTHER"
	}
	return &Route{
		m: m, path: path, requests: m.httpRequests.WithLabelValues(method, path), duration: m.httpDuration.WithLabelValues(method, path),
		ok: sync.OnceValue(func() prometheus.Counter { return m.httpResponses.WithLabelValues(path, "200", "") }),
	}
}

// Arrived counts a request that has just arrived.
func (r *Route) Arrived() { r.requests.Inc() }

// Answered counts an answer whose head went out d after the request arrived.
// The code is that of the error envelope; empty for success.
func (r *Route) Answered(status int, code string, d time.Duration) {
	r.duration.Observe(d.Seconds())
	if status == http.StatusOK && code == "" {
		r.ok().Inc()
		return
	}
	r.m.httpResponses.WithLabelValues(r.path, strconv.Itoa(status), code).Inc()
}
