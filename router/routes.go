package router

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"pdrouter/transfer"
	"pdrouter/workers"

	"github.com/go-chi/chi/v5"
)

// A route is one line of the client API.
type route struct {
	method, path string
	serve        func(*call) error
	open         bool // to everybody, also when keys are asked for
}

func (h *Handler) table() []route {
	routes := []route{
		{http.MethodGet, "/liveness", ok, true},
		{http.MethodGet, "/health", ok, true},
		{http.MethodGet, "/readiness", h.readiness, true},
		{http.MethodGet, "/v1/models", h.models, true},
	}
	for _, e := range []transfer.Endpoint{transfer.Chat, transfer.Completions, transfer.Generate} {
		routes = append(routes, route{http.MethodPost, e.Path(), h.complete(e), false})
	}
	for _, path := range []string{
		"/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/rerank", "/rerank", "/v1/score", "/v1/classify",
		"/v1/audio/transcriptions", "/v1/interactions",
	} {
		routes = append(routes, route{http.MethodPost, path, h.notImplemented(path), false})
	}
	for _, path := range []string{"/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize"} {
		routes = append(routes, route{http.MethodPost, path, h.forward(path), false})
	}
	return append(routes,
		route{http.MethodGet, "/get_model_info", h.modelInfo, false},
		route{http.MethodGet, "/get_server_info", h.serverInfo, false},
		route{http.MethodGet, "/health_generate", h.healthGenerate, true},
		route{http.MethodGet, "/engine_metrics", h.notImplemented("/engine_metrics"), true},
	)
}

// newRoutes makes the mux. Every answer, also of what matches no route, comes
// from answering and is in the envelope.
func (h *Handler) newRoutes() http.Handler {
	mux := chi.NewRouter()
	table := h.table()
	for _, r := range table {
		serve := r.serve
		if !r.open {
			serve = authorized(serve)
		}
		mux.Method(r.method, r.path, h.answering(h.met.Route(r.method, r.path), serve))
		if r.method == http.MethodGet {
			mux.Method(http.MethodHead, r.path, h.answering(h.met.Route(http.MethodHead, r.path), serve))
		}
	}
	mux.NotFound(h.fallback(notFound))
	mux.MethodNotAllowed(h.fallback(func(r *http.Request) error { return methodNotAllowed(table, r) }))
	return mux
}

// Probes returns a handler for a listener of its own that answers probes only.
func (h *Handler) Probes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/liveness", "/readiness", "/health":
			h.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// fallback answers what matches no route, and counts it under one path.
func (h *Handler) fallback(why func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.answering(h.met.Route(r.Method, "other"), func(c *call) error { return why(c.r) })(w, r)
	}
}

func notFound(r *http.Request) error {
	return &Error{
		Status: http.StatusNotFound, Code: "not_found",
		Message: fmt.Sprintf("There is no %s here.", shortened(r.URL.Path, maxShown)),
	}
}

func methodNotAllowed(table []route, r *http.Request) error {
	var allow []string
	for _, t := range table {
		if t.path == r.URL.Path && !slices.Contains(allow, t.method) {
			allow = append(allow, t.method)
		}
	}
	if len(allow) == 0 {
		return notFound(r) // chi knows no such method, and did not look for the path
	}
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	return &Error{
		Status: http.StatusMethodNotAllowed, Code: "method_not_allowed",
		Message: fmt.Sprintf("%s takes %s, not %s.", r.URL.Path, strings.Join(allow, ", "), shortened(r.Method, maxShown)),
		Header:  http.Header{"Allow": {strings.Join(allow, ", ")}},
	}
}

// authorized lets those in who send one of the keys; if there are none, all.
func authorized(serve func(*call) error) func(*call) error {
	return func(c *call) error {
		if len(c.cfg.APIKeys) == 0 {
			return serve(c)
		}
		if name, known := c.cfg.APIKeys.Find(c.r.Header.Get("Authorization")); known {
			c.key = name
			return serve(c)
		}
		return &Error{
			Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "A valid API key is needed: Authorization: Bearer KEY.",
			Header: http.Header{"Www-Authenticate": {"Bearer"}},
		}
	}
}

func ok(c *call) error {
	_, _ = c.w.Write([]byte("OK")) // the client may be gone
	return nil
}

// readiness answers as smg's does, whose users probe it.
func (h *Handler) readiness(c *call) error {
	ready, total := [2]int{}, 0
	for _, s := range h.registry.Statuses() {
		if s.Removed {
			continue // it only finishes what it has
		}
		total++
		if s.State == workers.Ready {
			ready[s.Worker.Role]++
		}
	}
	switch {
	case h.draining.Load():
		return answerJSON(c, http.StatusServiceUnavailable, map[string]any{"status": "not ready", "reason": "draining"})
	case len(h.registry.Dialects("")) == 0:
		return answerJSON(c, http.StatusServiceUnavailable, map[string]any{
			"status": "not ready", "reason": "insufficient healthy workers",
			"prefill_ready": ready[workers.Prefill], "decode_ready": ready[workers.Decode], "total_workers": total,
		})
	default:
		return answerJSON(c, http.StatusOK, map[string]any{
			"status": "ready", "healthy_workers": ready[workers.Prefill] + ready[workers.Decode], "total_workers": total,
		})
	}
}

// models lists what can be asked for now: the names are the engines' own. They
// say of each that it was created at this moment, so the router's start is the
// better word for it.
func (h *Handler) models(c *call) error {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list", Data: []model{}}
	for _, name := range h.registry.Models() {
		list.Data = append(list.Data, model{ID: name, Object: "model", Created: h.started.Unix(), OwnedBy: "pdrouter"})
	}
	return answerJSON(c, http.StatusOK, list)
}

func answerJSON(c *call, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // the client may be gone
	return nil
}

// notImplemented answers for a path that engines have and no dialect carries.
func (h *Handler) notImplemented(path string) func(*call) error {
	return func(*call) error {
		return notCarried(path, strings.Join(h.registry.Dialects(""), ", "))
	}
}

func notCarried(path, dialect string) error {
	if dialect != "" {
		dialect = ", dialect " + dialect
	}
	return &Error{
		Status: http.StatusNotImplemented, Code: "not_implemented",
		Message: fmt.Sprintf("%s is not carried with prefill and decode apart%s.", path, dialect),
		Header:  neverAgain(),
	}
}

// neverAgain tells OpenAI's and Anthropic's clients, which send what got a 5xx
// twice more, that it is of no use.
func neverAgain() http.Header { return http.Header{"X-Should-Retry": {"false"}} }
