package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pdrouter/workers"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"
)

const (
	// maxBody bounds a request's body, in bytes.
	maxBody = 64 << 10

	// patience is how long a body may take to come, and an answer to be taken.
	patience = 10 * time.Second

	// lastRead is how long somebody is listened to who is refused before the
	// body has come. net/http would wait for it without bound.
	lastRead = time.Second
)

// An API serves the admin routes for one daemon.
type API struct {
	registry *workers.Registry
	seen     Seen
	log      *zap.Logger
	upgrader Upgrader // nil: there is none
	reloader Reloader // nil: there is none
	notes    notes
	patience time.Duration
}

// New returns the API over the workers of registry, and what is seen.
func New(registry *workers.Registry, seen Seen, log *zap.Logger) *API {
	return &API{registry: registry, seen: seen, log: log, notes: newNotes(), patience: patience}
}

// Serves reports whether a path is the API's, for a listener that has others.
func Serves(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch path {
	case "/status", "/flush_cache", "/get_loads", "/reload", "/config/diff", "/upgrade":
		return true
	}
	return first == "workers" || first == "requests"
}

// A reply is what a request is answered with.
type reply struct {
	status   int
	location string
	body     any
}

// A server answers a request whose body has been read.
type server func(r *http.Request, body []byte) (reply, error)

// Handler returns the API as one listener has it.
func (a *API) Handler(access Access) http.Handler {
	return a.HandlerBy(func() Access { return access })
}

// HandlerBy is Handler for a listener whose Access may change from one request
// to the next.
func (a *API) HandlerBy(access func() Access) http.Handler {
	mux := chi.NewRouter()
	for _, route := range []struct {
		method, path string
		serve        server
	}{
		{http.MethodGet, "/workers", a.list},
		{http.MethodPost, "/workers", a.add},
		{http.MethodGet, "/workers/{id}", a.get},
		{http.MethodPut, "/workers/{id}", a.replace},
		{http.MethodPatch, "/workers/{id}", a.patch},
		{http.MethodDelete, "/workers/{id}", a.remove},
		{http.MethodPost, "/workers/{id}/drain", a.drain},
		{http.MethodPost, "/workers/{id}/undrain", a.undrain},
		{http.MethodPost, "/workers/{id}/recheck", a.recheck},
		{http.MethodPost, "/flush_cache", a.flushCache},
		{http.MethodGet, "/get_loads", a.loads},
		{http.MethodGet, "/requests", a.running},
		{http.MethodGet, "/requests/finished", a.finished},
		{http.MethodGet, "/requests/next", a.next},
		{http.MethodGet, "/requests/{id}", a.request},
		{http.MethodGet, "/status", a.status},
		{http.MethodPost, "/reload", a.reload},
		{http.MethodPost, "/config/diff", a.compare},
		{http.MethodPost, "/upgrade", a.upgrade},
	} {
		mux.Method(route.method, route.path, a.answering(access, route.serve))
	}
	mux.NotFound(a.answering(access, func(r *http.Request, _ []byte) (reply, error) {
		return reply{}, &Error{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: "There is no " + shown(r.URL.Path) + " here."}
	}))
	mux.MethodNotAllowed(a.answering(access, func(r *http.Request, _ []byte) (reply, error) {
		return reply{}, notAllowed(mux, r)
	}))
	return mux
}

// notAllowed returns the error for a path that takes other methods.
func notAllowed(mux *chi.Mux, r *http.Request) *Error {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if mux.Match(chi.NewRouteContext(), method, r.URL.Path) {
			allow = append(allow, method)
		}
	}
	list := strings.Join(allow, ", ")
	return &Error{
		Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Message: shown(r.URL.Path) + " takes " + list + ".",
		header: http.Header{"Allow": {list}},
	}
}

// answering lets in who may, reads the body, answers, and logs what was
// changed or refused.
func (a *API) answering(access func() Access, serve server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := reply{}
		key, err := access().check(r)
		if err != nil {
			refuseBody(w, r)
		} else {
			var body []byte
			if body, err = a.readBody(w, r); err == nil {
				answer, err = serve(r, body)
			}
		}
		if err != nil {
			e := errorFor(err)
			maps.Copy(w.Header(), e.header)
			answer = reply{status: e.Status, body: e}
		}
		a.logAnswer(r, key, answer.status, err)
		a.write(w, answer)
	}
}

// refuseBody sees to it that the connection ends with this answer, if there is
// a body that nobody reads.
func refuseBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lastRead)) // a recorder in tests has none
	}
}

// logAnswer logs changes and refusals. Neither a body nor a header is logged.
func (a *API) logAnswer(r *http.Request, key string, status int, err error) {
	from := r.RemoteAddr
	if from == "" || from == "@" {
		from = "unix socket" // its mode says who that may be
	}
	fields := []zap.Field{
		zap.String("method", r.Method), zap.String("path", shown(r.URL.Path)), zap.Int("status", status), zap.String("from", from),
	}
	if key != "" {
		fields = append(fields, zap.String("key", key)) // its name
	}
	switch {
	case err != nil && (status == http.StatusUnauthorized || status == http.StatusForbidden || status >= 500):
		a.log.Warn("admin request refused", append(fields, zap.Error(err))...)
	case err != nil && r.Method != http.MethodGet:
		a.log.Info("admin request refused", append(fields, zap.Error(err))...)
	case r.Method != http.MethodGet:
		a.log.Info("admin request", fields...)
	}
}

// readBody returns the body of r, bounded in size and in time.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(a.patience))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		_ = control.SetReadDeadline(time.Time{})
		return body, nil
	}
	w.Header().Set("Connection", "close")
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &Error{
			Status: http.StatusRequestEntityTooLarge, Code: "PAYLOAD_TOO_LARGE",
			Message: "The body is longer than " + strconv.FormatInt(tooLong.Limit, 10) + " bytes.",
		}
	}
	return nil, &Error{Status: http.StatusRequestTimeout, Code: "REQUEST_TIMEOUT", Message: "The body did not come to its end."}
}

// write answers, and does not wait for ever for somebody who takes nothing.
func (a *API) write(w http.ResponseWriter, answer reply) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(answer.body); err != nil {
		answer.status = http.StatusInternalServerError
		body.Reset()
		body.WriteString(`{"error":"Internal error","code":"` + codeInternal + `"}`)
	}
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Content-Length", strconv.Itoa(body.Len()))
	head.Set("Cache-Control", "no-store")
	if answer.location != "" {
		head.Set("Location", answer.location)
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(a.patience))
	w.WriteHeader(answer.status)
	_, _ = w.Write(body.Bytes()) // whoever asked may be gone
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}
