package admin

import (
	"errors"
	"net/http"

	"pdrouter/workers"
)

// The codes of errors that smg has too.
const (
	codeNotFound = "WORKER_NOT_FOUND"
	codeBad      = "BAD_REQUEST"
	codeExists   = "WORKER_ALREADY_EXISTS"
	codeInternal = "INTERNAL_SERVER_ERROR"
)

// An Error is why a request was refused, as it is answered.
type Error struct {
	Status  int    `json:"-"`
	Message string `json:"error"`
	Code    string `json:"code"`

	header http.Header
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func bad(err error) *Error {
	return &Error{Status: http.StatusBadRequest, Code: codeBad, Message: err.Error()}
}

func noWorker(id string) *Error {
	return &Error{Status: http.StatusNotFound, Code: codeNotFound, Message: "Worker " + shown(id) + " not found"}
}

// codeNoRequest is ours.
const codeNoRequest = "REQUEST_NOT_FOUND"

// maxShown bounds what is repeated of a request's own words, in bytes.
const maxShown = 128

func shown(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "..."
	}
	return s
}

// refused returns err, from a change of the worker with that ID, as an *Error.
func refused(id string, err error) *Error {
	switch {
	case errors.Is(err, workers.ErrUnknownWorker):
		return noWorker(id)
	case errors.Is(err, workers.ErrExists):
		return &Error{Status: http.StatusConflict, Code: codeExists, Message: err.Error()}
	}
	return bad(err) // all else is a fault of what was asked for
}

// errorFor returns err as an *Error. One that nobody classified is a bug, so it
// tells nothing.
func errorFor(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Status: http.StatusInternalServerError, Code: codeInternal, Message: "Internal error"}
}
