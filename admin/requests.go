package admin

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"pdrouter/record"

	"github.com/go-chi/chi/v5"
)

// The limits of a list of requests.
const (
	usualLimit = 100
	mostLimit  = 10000
)

// Requests are the answer to GET /requests and its like.
type Requests struct {
	Requests []RequestInfo `json:"requests"`
	Total    int           `json:"total"` // that fit what was asked for, also those above the limit
}

// A NextRequest is the answer to GET /requests/next.
type NextRequest struct {
	Number  uint64       `json:"number"`  // to ask for the one after it: that of Request, or of the request that came last
	Request *RequestInfo `json:"request"` // null: it has not come
}

// A question is what is asked about requests.
type question struct {
	model, phase, worker, code string
	status, limit              int
	olderThan                  float64 // seconds
	after, number              uint64  // 0: none
	failed                     bool
}

// ask reads a question, of which the keys may be there and no others.
func ask(r *http.Request, keys ...string) (question, error) {
	q := question{limit: usualLimit}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, bad(err)
	}
	for key, all := range values {
		if !slices.Contains(keys, key) {
			return q, bad(fmt.Errorf("unknown parameter %q; there are %q", shown(key), keys))
		}
		if len(all) != 1 {
			return q, bad(fmt.Errorf("%s: given twice", key))
		}
		if err := q.set(key, all[0]); err != nil {
			return q, bad(fmt.Errorf("%s: %q %w", key, shown(all[0]), err))
		}
	}
	return q, nil
}

func (q *question) set(key, value string) (err error) {
	text := map[string]*string{"model": &q.model, "phase": &q.phase, "worker": &q.worker, "code": &q.code}
	if at := text[key]; at != nil {
		*at = value
		return nil
	}
	switch key {
	case "status":
		if q.status, err = strconv.Atoi(value); err != nil {
			return errNotA("status")
		}
	case "limit":
		if q.limit, err = strconv.Atoi(value); err != nil || q.limit < 1 || q.limit > mostLimit {
			return errNotA(fmt.Sprintf("number from 1 to %d", mostLimit))
		}
	case "older-than":
		return q.setAge(value)
	case "after":
		if q.after, err = strconv.ParseUint(value, 10, 64); err != nil {
			return errNotA("number of a request")
		}
	case "number":
		if q.number, err = strconv.ParseUint(value, 10, 64); err != nil {
			return errNotA("number of a request")
		}
	case "failed":
		if q.failed, err = strconv.ParseBool(value); err != nil {
			return errNotA("true or false")
		}
	}
	return nil
}

type errNotA string

func (e errNotA) Error() string { return "is no " + string(e) }

// setAge takes seconds, or a time as Go writes it, such as 1m30s.
func (q *question) setAge(value string) error {
	if d, err := time.ParseDuration(value); err == nil {
		q.olderThan = d.Seconds()
	} else if q.olderThan, err = strconv.ParseFloat(value, 64); err != nil || math.IsNaN(q.olderThan) {
		return errNotA("time in seconds, and no 1m30s")
	}
	return nil
}

// fits reports whether a request is one that was asked for. Those that are not
// for an engine, such as GET /v1/models, never are.
func (q *question) fits(v *record.View, now time.Time) bool {
	if v.Endpoint == "" ||
		q.model != "" && v.Model != q.model ||
		q.phase != "" && v.Name(v.Phase) != q.phase && v.Phase.String() != q.phase ||
		q.code != "" && v.Code != q.code ||
		q.status != 0 && v.Status != q.status ||
		q.failed && v.Code == "" ||
		q.olderThan > 0 && v.Since(now).Seconds() < q.olderThan ||
		v.Number <= q.after {
		return false
	}
	return q.worker == "" || slices.ContainsFunc(v.Attempts, func(a record.Attempt) bool {
		return q.worker == a.Prefill || q.worker == a.Decode || q.worker == a.PrefillURL || q.worker == a.DecodeURL
	})
}

// A walk shows records one after the other.
type walk func(see func(v *record.View) bool)

// gather returns what walk shows that fits q.
func (a *API) gather(q *question, walk walk) Requests {
	now := time.Now()
	out := Requests{Requests: []RequestInfo{}}
	walk(func(v *record.View) bool {
		if q.fits(v, now) {
			if out.Total++; out.Total <= q.limit {
				out.Requests = append(out.Requests, requestInfo(v, now))
			}
		}
		return true
	})
	a.sayLacks(out.Requests)
	return out
}

// sayLacks says what those requests wait for that wait now.
func (a *API) sayLacks(all []RequestInfo) {
	waits := func(r RequestInfo) bool { return r.Running && r.Phase == record.Admit.String() }
	if !slices.ContainsFunc(all, waits) {
		return
	}
	lacks := map[string]*string{}
	for _, q := range a.registry.Queues() {
		lacks[q.Model] = unless0(q.Lacks.String())
	}
	for i := range all {
		if !waits(all[i]) {
			continue
		}
		if all[i].Lacks = lacks[all[i].Model]; all[i].Lacks == nil {
			all[i].Lacks = lacks[""] // /generate names no model
		}
	}
}

func (a *API) running(r *http.Request, _ []byte) (reply, error) {
	q, err := ask(r, "model", "phase", "worker", "older-than", "limit")
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: a.gather(&q, a.seen.Book.Oldest)}, nil
}

func (a *API) finished(r *http.Request, _ []byte) (reply, error) {
	q, err := ask(r, "model", "worker", "status", "code", "failed", "limit")
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: a.gather(&q, a.seen.Book.Latest)}, nil
}

func (a *API) request(r *http.Request, _ []byte) (reply, error) {
	q, err := ask(r, "number")
	if err != nil {
		return reply{}, err
	}
	id := chi.URLParam(r, "id")
	if r.URL.RawPath != "" { // by which chi went
		if id, err = url.PathUnescape(id); err != nil {
			return reply{}, bad(err)
		}
	}
	now := time.Now()
	out := Requests{Requests: []RequestInfo{}}
	for _, v := range a.seen.Book.Find(id) {
		if q.number == 0 || v.Number == q.number {
			out.Requests = append(out.Requests, requestInfo(&v, now))
		}
	}
	if out.Total = len(out.Requests); out.Total == 0 {
		return reply{}, &Error{
			Status: http.StatusNotFound, Code: codeNoRequest,
			Message: "Request " + shown(id) + " is not known: it did not come here, or is not among the last ones that have ended",
		}
	}
	a.sayLacks(out.Requests)
	return reply{status: http.StatusOK, body: out}, nil
}

// next tells of the first request after the one with a number, running or not.
func (a *API) next(r *http.Request, _ []byte) (reply, error) {
	q, err := ask(r, "after", "model")
	if err != nil {
		return reply{}, err
	}
	out := NextRequest{Number: a.seen.Book.Count()}
	if !r.URL.Query().Has("after") {
		return reply{status: http.StatusOK, body: out}, nil
	}
	now := time.Now()
	first := func(v *record.View) bool {
		if q.fits(v, now) && (out.Request == nil || v.Number < out.Request.Number) {
			info := requestInfo(v, now)
			out.Request = &info
		}
		return true
	}
	a.seen.Book.Oldest(first)
	a.seen.Book.Latest(first)
	if out.Request != nil {
		out.Number = out.Request.Number
		return reply{status: http.StatusOK, body: out}, nil
	}
	out.Number = q.after
	return reply{status: http.StatusOK, body: out}, nil
}
