package router

import (
	"net/http"

	"github.com/go-chi/cors"
)

// A standing is a Config in force, with what is made of it once and not for
// each request. It is never changed, but replaced as a whole: a request keeps
// the one that it began with, so that it is judged by one configuration from
// its head to the end of its answer.
type standing struct {
	Config
	maxClass Class
	entry    http.Handler // the routes, behind CORS where that is on
}

// newStanding returns cfg, which has been validated, made ready.
func (h *Handler) newStanding(cfg Config) *standing {
	cfg.RequestIDHeaders = canonical(cfg.RequestIDHeaders)
	cfg.RoutingKeyHeaders = canonical(cfg.RoutingKeyHeaders)
	s := &standing{Config: cfg, entry: h.routes}
	s.maxClass, _ = ParseClass(cfg.MaxClass)
	if len(cfg.CORSOrigins) > 0 && h.routes != nil {
		s.entry = cors.Handler(cors.Options{
			AllowedOrigins: cfg.CORSOrigins,
			AllowedMethods: []string{http.MethodGet, http.MethodPost},
			AllowedHeaders: []string{"*"},
			ExposedHeaders: []string{"X-Request-Id", "X-Smg-Error-Code"},
		})(h.routes)
	}
	return s
}

// Reload puts cfg, which has been validated, in force for the requests that
// come from now on. Those that are under way end as they began; only
// MaxBufferedBytes, which bounds all of them together, holds for all.
func (h *Handler) Reload(cfg Config) {
	h.standing.Store(h.newStanding(cfg))
	h.canaries.standing.Store(h.canaries.newStanding(forCanaries(cfg)))
}
