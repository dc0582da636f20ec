package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pdrouter/transfer"
	"pdrouter/workers"
)

// statusClientGone is what the log shows when the client left. Nobody reads it
// as an answer. The number is nginx's.
const statusClientGone = 499

// errClientGone is the cause with which an attempt ends whose client left.
var errClientGone = errors.New("client gone")

// An Error is a failure that the client is told about. Status, Code, Param,
// Message, Body and RetryAfter go to the client; the rest goes to the log or to
// who judges workers, and stays there.
type Error struct {
	Status     int         // HTTP status, 400 to 599, or 499
	Code       string      // stable name in the API, such as "model_not_found"
	Param      string      // the key of the body that is at fault, if one is
	Message    string      // for the person who sent the request
	Body       []byte      // an engine's own JSON, relayed instead of the envelope
	RetryAfter string      // the engine's own Retry-After
	Leg        string      // the role of the leg that failed; empty if none was sent
	Again      bool        // another pair may do better
	Header     http.Header // more headers of the answer, such as Allow
	Err        error       // the cause; nil when the router decided by itself

	// Fault is what it says against the worker or the pair. Nil: nothing,
	// because the client or we are the cause.
	Fault *workers.Fault

	told bool // the client has read of it in its stream
}

// maxShown and maxLogged bound what is shown of a client's words and what is
// logged of an error, in bytes.
const (
	maxShown  = 128
	maxLogged = 4 << 10
)

// Error implements error. It is meant for logs, so it does not repeat what an
// engine said of the client's own request: that may quote the prompt.
func (e *Error) Error() string {
	s := fmt.Sprintf("%d %s", e.Status, e.Code)
	if e.Leg != "" {
		s = e.Leg + " leg: " + s
	}
	switch {
	case e.Leg != "" && e.Status < 500:
		return s
	case e.Err != nil:
		return s + ": " + shortened(e.Err.Error(), maxLogged)
	default:
		return s + ": " + e.Message
	}
}

// shortened returns the beginning of s, if it is longer than limit bytes.
func shortened(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// errorFor returns err as an *Error. An error that nobody classified is a bug,
// so it becomes a 500 that tells the client nothing.
func errorFor(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if bad, ok := errors.AsType[*transfer.BadRequest](err); ok {
		return &Error{Status: http.StatusBadRequest, Code: bad.Code, Param: bad.Param, Message: bad.Message}
	}
	if none, ok := errors.AsType[*workers.NoneError](err); ok {
		return &Error{
			Status: http.StatusServiceUnavailable, Code: "no_available_workers", RetryAfter: retryAfter(none.Until),
			Message: "No available servers: " + none.Error() + ".", Err: err,
		}
	}
	if shed, ok := errors.AsType[*workers.ShedError](err); ok {
		return shedError(shed)
	}
	switch {
	case errors.Is(err, workers.ErrUnknownModel):
		return &Error{Status: http.StatusNotFound, Code: "model_not_found", Param: "model", Message: "The model does not exist here.", Err: err}
	case errors.Is(err, errClientGone), errors.Is(err, context.Canceled):
		return &Error{Status: statusClientGone, Code: "client_gone", Err: err}
	default:
		return &Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "Internal error.", Err: err}
	}
}

// shedError returns the error for a request that was not let in.
func shedError(shed *workers.ShedError) *Error {
	e := &Error{
		Status: http.StatusTooManyRequests, Code: "admission_queue_full", Err: shed,
		Message:    "Too many requests wait already.",
		RetryAfter: strconv.Itoa(int(math.Ceil(shed.RetryAfter.Seconds()))),
	}
	if shed.TimedOut {
		e.Status, e.Code = http.StatusServiceUnavailable, "admission_queue_timeout"
		e.Message = map[workers.Shortage]string{
			workers.OfSlots:   "The request has waited too long: as many as may be are under way.",
			workers.OfPrefill: "The request has waited too long for a prefill worker.",
			workers.OfDecode:  "The request has waited too long for room in the KV cache of a decode worker.",
		}[shed.Shortage]
	}
	return e
}

// retryAfter returns the seconds until t, rounded up; 1 if t is over or zero,
// which is not known.
func retryAfter(t time.Time) string {
	return strconv.Itoa(max(int(math.Ceil(time.Until(t).Seconds())), 1))
}

// shuttingDown returns the error for a request that a shutdown ends.
func shuttingDown() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: "shutting_down", Message: "The router is shutting down.", Err: ErrDrained}
}

// kind returns the word for the envelope's type, in OpenAI's vocabulary.
func (e *Error) kind() string {
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.Status == http.StatusUnauthorized:
		return "authentication_error"
	case e.Status >= 500:
		return "server_error"
	default:
		return "invalid_request_error"
	}
}

// envelope returns the error as OpenAI clients parse it.
func (e *Error) envelope() []byte {
	var b bytes.Buffer
	b.WriteString(`{"error":{"message":`)
	writeJSONString(&b, e.Message)
	b.WriteString(`,"type":"` + e.kind() + `","param":`)
	if e.Param == "" {
		b.WriteString("null")
	} else {
		writeJSONString(&b, e.Param)
	}
	b.WriteString(`,"code":`)
	writeJSONString(&b, e.Code)
	b.WriteString(`}}`)
	return b.Bytes()
}

// write answers the request with e.
func (e *Error) write(w http.ResponseWriter) {
	body := e.Body
	if body == nil {
		body = e.envelope()
	}
	head := w.Header()
	maps.Copy(head, e.Header)
	head.Set("Content-Type", "application/json")
	head.Set("Content-Length", strconv.Itoa(len(body)))
	head.Set("X-SMG-Error-Code", e.Code)
	if e.RetryAfter != "" {
		head.Set("Retry-After", e.RetryAfter)
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // the client may be gone
}

// event returns e as the last event of a stream that has begun.
func (e *Error) event() []byte {
	return append(append([]byte("data: "), e.envelope()...), "\n\n"...)
}

// writeJSONString writes s as a JSON string. What is no UTF-8 is replaced.
func writeJSONString(b *bytes.Buffer, s string) {
	const hex = "0123456789abcdef"
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20:
			b.WriteString(`\u00`)
			b.WriteByte(hex[r>>4])
			b.WriteByte(hex[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
