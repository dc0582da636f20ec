package exchange

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
)

// ErrRequest is wrapped by what Do returns for a request that cannot be
// written: nothing was sent, and no worker is to blame.
var ErrRequest = errors.New("malformed request")

// ErrTooManyConnections is wrapped by what Do returns when Config.MaxOpen
// connections are in use.
var ErrTooManyConnections = errors.New("too many connections")

// A Phase is how far an exchange had come.
type Phase uint8

// The phases of an exchange, in their order.
const (
	Dial  Phase = iota // no connection yet: nothing was sent
	Write              // the request was not written to its end
	Head               // it was, and the answer's head had not come
	Body               // the answer's body was being read
)

// String returns what was being done.
func (p Phase) String() string {
	switch p {
	case Dial:
		return "dial"
	case Write:
		return "write request"
	case Head:
		return "read head"
	case Body:
		return "read body"
	}
	return "unknown phase"
}

// An Error is why an exchange ended early.
type Error struct {
	Phase Phase

	// Stale means that the connection had been used before and died before any
	// byte of the answer came. The worker closed it for being idle, most
	// likely, which says nothing about the worker; but it may have read the
	// request, so nothing was sent again.
	Stale bool

	// Timeout means that one of our own bounds passed: Config.ConnectTimeout,
	// Request.FirstByte or what SetIdle was given.
	Timeout bool

	// Err is the cause. It is the context's error if the context has ended.
	Err error
}

// Error names phase and cause.
func (e *Error) Error() string {
	if e.Stale {
		return e.Phase.String() + ": connection went stale: " + e.Err.Error()
	}
	return e.Phase.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Lost reports whether the connection is what failed: there is none, it was
// reset, it fell silent for good, or it ended where an answer should have begun.
// A worker that is late, or ends its answer early, is at the other end of it.
func (e *Error) Lost() bool {
	switch {
	case e.Phase == Dial:
		return true
	case e.Timeout:
		return false
	case errors.Is(e.Err, syscall.ECONNRESET), errors.Is(e.Err, syscall.EPIPE), errors.Is(e.Err, syscall.ETIMEDOUT):
		return true
	default:
		return e.Phase < Body && errors.Is(e.Err, io.ErrUnexpectedEOF)
	}
}

// fault makes an Error of err, which a socket gave, unless ctx has ended: then
// the socket's error is only the echo of our own closing it. It asks ctx.Err, not
// context.Cause, which may be the fault of somebody else.
func fault(ctx context.Context, phase Phase, err error) *Error {
	if ended := ctx.Err(); ended != nil {
		return &Error{Phase: phase, Err: ended}
	}
	return &Error{Phase: phase, Timeout: isTimeout(err), Err: err}
}

// isTimeout reports whether err says that a deadline of ours has passed.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
