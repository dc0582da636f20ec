package router

import (
	"net/http"
	"time"
)

const (
	// lastRead is how long a client is listened to that has been answered
	// before it has sent all of its request, lest the answer be lost.
	lastRead = time.Second

	// piece is how much is written under one deadline, in bytes: a slow client
	// is one that takes nothing, not one that takes a large answer slowly.
	piece = 256 << 10
)

// A client is where the answer to one request goes. It notes whether and when
// the head was sent, and it does not wait for ever for somebody who takes
// nothing.
type client struct {
	http.ResponseWriter
	control http.ResponseController
	flusher flusher       // net/http's own, found without a detour for each token
	stall   time.Duration // at least so long may a write take
	until   time.Time     // the write deadline that is set
	http2   bool
	unread  bool // the request's body may not have been read to its end

	status int       // 0: nothing was sent yet
	headAt time.Time // when the head was sent
	bytes  int64     // of the answer's body
}

// A flusher is what net/http's answers are, beside a ResponseWriter.
type flusher interface{ FlushError() error }

// A detour is a flusher for a ResponseWriter that is wrapped.
type detour struct{ control *http.ResponseController }

// FlushError implements flusher.
func (d detour) FlushError() error { return d.control.Flush() }

func newClient(w http.ResponseWriter, r *http.Request, stall time.Duration) *client {
	c := &client{
		ResponseWriter: w, control: *http.NewResponseController(w), stall: stall,
		http2: r.ProtoMajor == 2, unread: r.ContentLength != 0,
	}
	var ok bool
	if c.flusher, ok = w.(flusher); !ok {
		c.flusher = detour{&c.control}
	}
	return c
}

// begun reports whether the status line has been sent. After that nothing can
// be taken back.
func (c *client) begun() bool { return c.status != 0 }

// WriteHeader implements http.ResponseWriter.
func (c *client) WriteHeader(status int) {
	if status >= 200 && c.status == 0 {
		c.status, c.headAt = status, time.Now()
		if c.unread && !c.http2 {
			c.part()
		}
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *client) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	for n := 0; ; {
		c.patience()
		m, err := c.ResponseWriter.Write(p[n:min(len(p), n+piece)])
		n += m
		c.bytes += int64(m)
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// send writes p and flushes it, so that a token leaves when it came.
func (c *client) send(p []byte) error {
	if _, err := c.Write(p); err != nil {
		return err
	}
	err := c.flusher.FlushError()
	if c.http2 {
		// It would end the stream even if nothing is being written.
		_ = c.control.SetWriteDeadline(time.Time{})
		c.until = time.Time{}
	}
	return err
}

// sendFirst sends what an answer begins with, on a stack of its own. Under it
// net/http writes the head, which takes 3 KiB more than anything that follows:
// the stack of an open stream would be of 16 KiB and not of 8 for as long as it
// lasts.
func (c *client) sendFirst(p []byte) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = c.send(p)
	}()
	<-done
	return err
}

// part sees to it that the connection ends with this answer. Else net/http
// would wait for the rest of the request, without bound, before it answers.
func (c *client) part() {
	c.Header().Set("Connection", "close")
	_ = c.control.SetReadDeadline(time.Now().Add(lastRead))
}

// patience moves the write deadline, but only when it has come close: that is
// a tenth of the cost of doing it at each of a stream's writes. So a client
// may stall for stall to one and a half of it.
func (c *client) patience() {
	now := time.Now()
	if c.until.Sub(now) > c.stall {
		return
	}
	c.until = now.Add(c.stall + c.stall/2)
	_ = c.control.SetWriteDeadline(c.until) // a recorder in tests has none
}

// Unwrap lets http.ResponseController reach the connection.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }
