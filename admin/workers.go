package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"pdrouter/workers"

	"github.com/go-chi/chi/v5"
)

// A List is the answer to GET /workers.
type List struct {
	Workers []WorkerInfo `json:"workers"`
	Total   int          `json:"total"`
	Stats   Stats        `json:"stats"`
}

// Stats count the workers of a List.
type Stats struct {
	Prefill int `json:"prefill_count"`
	Decode  int `json:"decode_count"`
	Regular int `json:"regular_count"`
}

// An Accepted is the answer to a change.
type Accepted struct {
	Status   string `json:"status"`
	WorkerID string `json:"worker_id"`
	URL      string `json:"url,omitempty"`
	Location string `json:"location,omitempty"`
	Message  string `json:"message"`
}

// accepted returns the reply to a change of a worker.
func accepted(id, message string) reply {
	return reply{status: http.StatusAccepted, body: Accepted{Status: "accepted", WorkerID: id, Message: message}}
}

func (a *API) list(r *http.Request, _ []byte) (reply, error) {
	model := r.URL.Query().Get("model")
	out := List{Workers: []WorkerInfo{}}
	for _, s := range a.registry.Statuses() {
		if model != "" && !slices.Contains(s.Facts.Models, model) {
			continue
		}
		out.Workers = append(out.Workers, a.info(s))
		if s.Worker.Role == workers.Prefill {
			out.Stats.Prefill++
		} else {
			out.Stats.Decode++
		}
	}
	out.Total = len(out.Workers)
	return reply{status: http.StatusOK, body: out}, nil
}

func (a *API) get(r *http.Request, _ []byte) (reply, error) {
	s, err := a.find(r)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: a.info(s)}, nil
}

// find returns the worker that the path of r names.
func (a *API) find(r *http.Request) (workers.Status, error) {
	id := chi.URLParam(r, "id")
	s, ok := a.registry.Get(a.notes.current(id))
	if !ok {
		return workers.Status{}, noWorker(id)
	}
	return s, nil
}

func (a *API) add(_ *http.Request, body []byte) (reply, error) {
	s, err := readSpec(body)
	if err != nil {
		return reply{}, err
	}
	w, err := a.registry.Add(s.worker())
	switch {
	case errors.Is(err, workers.ErrExists):
		return reply{}, a.exists(s.worker())
	case err != nil:
		return reply{}, refused("", err)
	}
	a.notes.prune(a.registry.Statuses())
	a.notes.change(w.ID, s)
	location := "/workers/" + w.ID
	return reply{status: http.StatusAccepted, location: location, body: Accepted{
		Status: "accepted", WorkerID: w.ID, URL: w.URL, Location: location,
		Message: "Worker addition queued for background processing",
	}}, nil
}

// exists returns the error for a worker that is there, with its ID.
func (a *API) exists(spec workers.Spec) *Error {
	message := fmt.Sprintf("Worker already exists at URL '%s'.", spec.URL)
	for _, s := range a.registry.Statuses() {
		if !s.Removed && s.Worker.URL == spec.URL && s.Worker.Role == spec.Role {
			message = fmt.Sprintf("Worker already exists at URL '%s' with ID %s. Use PUT /workers/%[2]s to replace or PATCH /workers/%[2]s to update.", spec.URL, s.Worker.ID)
		}
	}
	return &Error{Status: http.StatusConflict, Code: codeExists, Message: message}
}

// replace puts a worker anew in place of one with the same URL. The requests
// of the old one go on.
func (a *API) replace(r *http.Request, body []byte) (reply, error) {
	s, err := readSpec(body)
	if err != nil {
		return reply{}, err
	}
	old, err := a.find(r)
	switch {
	case err != nil:
		return reply{}, err
	case s.url != old.Worker.URL:
		return reply{}, bad(errors.New("url: PUT does not move a worker; DELETE it and POST the new URL"))
	}
	return a.inherit(old.Worker, s.worker(), s, false)
}

// patch changes what it is told to. A key can only change with the worker: the
// requests that are under way have the old one.
func (a *API) patch(r *http.Request, body []byte) (reply, error) {
	s, err := readPatch(body)
	if err != nil {
		return reply{}, err
	}
	old, err := a.find(r)
	if err != nil {
		return reply{}, err
	}
	if s.apiKey != "" && s.apiKey != old.Worker.Key() {
		next := old.Worker.Spec
		next.APIKey = s.apiKey
		return a.inherit(old.Worker, next, s, true)
	}
	if old.Removed {
		return reply{}, noWorker(old.Worker.ID)
	}
	a.notes.change(old.Worker.ID, s)
	return accepted(old.Worker.ID, "Worker update queued for background processing"), nil
}

// inherit replaces a worker. With keep, what was noted of it stays.
func (a *API) inherit(old *workers.Worker, next workers.Spec, s *spec, keep bool) (reply, error) {
	w, err := a.registry.Replace(old.ID, next)
	if err != nil {
		return reply{}, refused(old.ID, err)
	}
	a.notes.inherit(old.ID, w.ID, keep)
	a.notes.change(w.ID, s)
	a.notes.prune(a.registry.Statuses())
	answer := accepted(w.ID, "Worker update queued for background processing")
	answer.location = "/workers/" + w.ID
	return answer, nil
}

func (a *API) remove(r *http.Request, _ []byte) (reply, error) {
	return a.change(r, a.registry.Remove, "Worker removal queued for background processing")
}

func (a *API) drain(r *http.Request, _ []byte) (reply, error) {
	return a.change(r, a.registry.Drain, "Worker gets no new requests; those that it has go on")
}

func (a *API) undrain(r *http.Request, _ []byte) (reply, error) {
	return a.change(r, a.registry.Undrain, "Worker gets requests again as soon as it is ready")
}

// recheck is for who knows that an engine has started anew, and does not wait for
// the daemon to notice.
func (a *API) recheck(r *http.Request, _ []byte) (reply, error) {
	s, err := a.find(r)
	if err != nil {
		return reply{}, err
	}
	a.registry.Recheck(s.Worker)
	return accepted(s.Worker.ID, "Worker is looked at anew, as one whose engine has been restarted"), nil
}

// change changes the state of the worker that r names.
func (a *API) change(r *http.Request, do func(id string) error, message string) (reply, error) {
	s, err := a.find(r)
	if err != nil {
		return reply{}, err
	}
	id := s.Worker.ID
	if err := do(id); err != nil {
		return reply{}, refused(id, err)
	}
	a.notes.change(id, &spec{})
	return accepted(id, message), nil
}
