package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// lastWords is how long an answer is looked for on a connection that took no
// more of the request. Such a connection has ended, and reading from it does
// not wait; the bound is for the day when the kernel has another reason.
const lastWords = time.Second

// An Answer is a worker's answer whose head has been read, or is awaited.
type Answer struct {
	Status int
	Header Header

	ctx  context.Context
	peer *Peer
	conn *conn
	stop func() bool // ends ctx's power over conn

	method  string // of the request
	bounded bool   // its FirstByte is set
	unsent  error  // why the worker took no more of it

	framing framing
	left    int64  // of a body with a length
	chunks  chunks // of a chunked body
	idle    time.Duration
	until   time.Time // the read deadline that idle has set
	err     error     // of the last Read; io.EOF when the body is whole
	closed  bool
}

// send writes req. That the worker takes no more is told by Await: a worker that
// closes while we write may have said why.
func (a *Answer) send(req *Request) {
	c := a.conn
	a.method = req.method()
	c.in.reset(a.peer.cfg.MaxHeadBytes)
	if a.bounded = req.FirstByte > 0; a.bounded {
		// For writing too, and for all of the head together: a worker that
		// sends it byte by byte gains nothing.
		_ = c.raw.SetDeadline(time.Now().Add(req.FirstByte))
	}
	a.unsent = c.out.send(req, a.peer.host)
}

// Await is the second half of Do: it waits for the head. If it returns an error,
// the answer is closed.
func (a *Answer) Await() error {
	if err := a.await(); err != nil {
		a.abandon()
		return err
	}
	return nil
}

func (a *Answer) await() error {
	c := a.conn
	c.buffer()
	if a.unsent != nil {
		// What the worker said before it closed is here already, or never comes.
		_ = c.raw.SetReadDeadline(time.Now().Add(lastWords))
	}
	if err := a.readHead(a.method); err != nil {
		if a.unsent != nil {
			return a.fault(Write, a.unsent)
		}
		if !c.out.sent() {
			return a.fault(Write, err)
		}
		return a.fault(Head, err)
	}
	c.in.lift()
	if a.bounded || a.unsent != nil {
		// An error means that the context has ended: Read will say so.
		_ = c.raw.SetDeadline(time.Time{})
	}
	return nil
}

// readHead reads the head of the answer proper, and those of 1xx before it. All
// together are limited by the connection's meter.
func (a *Answer) readHead(method string) error {
	for {
		h, err := readHead(a.conn.br)
		if err != nil && a.conn.in.err != nil {
			// A line that the socket cut short only looks malformed.
			return cut(a.conn.in.err)
		}
		if err != nil {
			return err
		}
		if h.status == http.StatusSwitchingProtocols {
			return errors.New("status 101, which nobody asked for")
		}
		a.framing, err = h.framing(method)
		if err != nil {
			return err
		}
		if h.status < 200 {
			continue // it has no body, whatever its framing says
		}
		a.Status, a.Header = h.status, h.header
		a.left = a.framing.length
		if a.left == 0 {
			a.err = io.EOF
		}
		return nil
	}
}

// Length returns the length of the body as the worker told it, -1 if it did not.
func (a *Answer) Length() int64 { return a.framing.length }

// Sent reports whether all of the request has been written. Then its body is not
// looked at any more.
func (a *Answer) Sent() bool { return a.conn.out.sent() }

// SetIdle bounds how long each Read from now on may wait: at least d, and at
// most half as long again. The clock runs only while a Read is outstanding.
// Zero: no bound but the context.
func (a *Answer) SetIdle(d time.Duration) {
	a.idle, a.until = d, time.Time{}
	if d <= 0 && !a.closed {
		// An error means that the context has ended: Read will say so.
		_ = a.conn.raw.SetReadDeadline(time.Time{})
	}
}

// Read reads the body, and returns as soon as there is something to return.
func (a *Answer) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	if a.closed {
		return 0, os.ErrClosed
	}
	if len(p) == 0 {
		return 0, nil
	}
	a.patience()
	n, err := a.read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // read returns io.EOF itself, and only at the end
		err = a.fault(Body, err)
	}
	a.err = err
	return n, err
}

// patience moves the read deadline, but only when it has come close: a stream is
// read often, and moving it each time costs more than looking at the clock. So a
// Read may wait for idle to one and a half of it.
func (a *Answer) patience() {
	if a.idle <= 0 {
		return
	}
	now := time.Now()
	if a.until.Sub(now) < a.idle {
		a.until = now.Add(a.idle + a.idle/2)
		_ = a.conn.raw.SetReadDeadline(a.until)
	}
}

// read reads what the framing says. It returns io.EOF only if the body is whole.
func (a *Answer) read(p []byte) (int, error) {
	switch {
	case a.framing.chunked:
		return a.readChunks(p)
	case a.framing.length < 0:
		return a.conn.read(p)
	}
	n, err := a.conn.read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	if a.left == 0 {
		return n, io.EOF
	}
	return n, cut(err)
}

// readChunks reads a chunked body. It reads on until there is something to
// return, and no further: the trailers must not hold back the last chunk.
func (a *Answer) readChunks(p []byte) (int, error) {
	for {
		n, err := a.conn.read(p)
		n, malformed := a.chunks.strip(p[:n])
		switch {
		case malformed != nil:
			return n, malformed
		case a.chunks.ended():
			return n, io.EOF
		case err != nil:
			return n, cut(err)
		case n > 0:
			return n, nil
		}
	}
}

// Close ends the exchange. The connection is used again if the body was read to
// its end and nothing is left over; otherwise it is closed, which is how a
// worker learns that nobody waits for its answer. Calling it again does nothing.
func (a *Answer) Close() error {
	if a.closed {
		return nil
	}
	a.closed = true
	// If stop comes too late, the context is closing the connection.
	if !a.stop() || !a.whole() || !a.conn.settle() {
		a.peer.pool.drop(a.conn)
		return nil
	}
	a.peer.give(a.conn)
	return nil
}

// whole reports whether request and answer both came to their ends.
func (a *Answer) whole() bool {
	return a.err == io.EOF && !a.framing.close && !a.chunks.over && a.conn.out.wholly() //nolint:errorlint // set by Read, to io.EOF itself
}

// abandon ends an exchange that got no answer.
func (a *Answer) abandon() {
	a.closed = true
	a.stop()
	a.peer.pool.drop(a.conn)
}

// fault makes an Error of err.
func (a *Answer) fault(phase Phase, err error) *Error {
	e := fault(a.ctx, phase, err)
	died := !e.Timeout && errors.Is(e.Err, err) // not ctx, not our own bound
	e.Stale = died && a.conn.used && a.conn.in.got == 0
	return e
}
