package exchange

import (
	"bufio"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tlsAtOnce is the largest request that is written through TLS without a
	// helper. TLS cannot write a part and come back, so it must surely fit what
	// the kernel holds: Linux gives each socket 16 KiB at the least
	// (net.ipv4.tcp_wmem), and the worker's side holds 64 KiB more.
	tlsAtOnce = 16 << 10

	// helperGrace is how long an answer that came before the helper ended waits
	// for it, to keep the connection. A worker that reads no more, as after a
	// 413, costs this much once.
	helperGrace = 5 * time.Millisecond

	// maxVec is how many slices one writev takes (IOV_MAX).
	maxVec = 1024
)

// An outbox writes one request at a time to a connection, without making the
// goroutine that waits for the answer wait for the worker to read.
type outbox struct {
	conn *conn
	head []byte      // memory, used again
	vec  [][]byte    // memory of rest, used again
	rest net.Buffers // what is not written yet
	err  error       // why it cannot be; the helper's until ended is closed

	ended   chan struct{} // closed when the helper ends; nil if there was none
	records *bufio.Writer // over TLS; nil if there is none

	// The callback is made once, so that using it does not allocate.
	writev func(fd uintptr) bool
}

func (o *outbox) init(c *conn) {
	o.conn = c
	o.writev = o.writeSome
}

// send writes req as far as that is possible at once, and has the rest written
// by a helper goroutine. An error means that the worker has closed the
// connection; it may still have answered.
func (o *outbox) send(req *Request, host string) error {
	size := req.size()
	o.head = req.appendHead(o.head[:0], host, size)
	o.vec = append(o.vec[:0], o.head)
	for _, fragment := range req.Body {
		if len(fragment) > 0 {
			o.vec = append(o.vec, fragment)
		}
	}
	o.rest, o.err, o.ended = o.vec, nil, nil
	switch {
	case !o.conn.secured():
		if err := o.conn.sys.Write(o.writev); err != nil {
			o.err = err
		}
	case len(o.head)+size <= tlsAtOnce:
		o.err = o.writeRecords()
	}
	if o.err != nil || len(o.rest) == 0 {
		return o.err
	}
	o.ended = make(chan struct{})
	go o.help() // joined by close, or seen to have ended by sent
	return nil
}

// writeSome gives the socket what it takes without waiting.
func (o *outbox) writeSome(fd uintptr) bool {
	for len(o.rest) > 0 {
		n, err := unix.Writev(int(fd), o.rest[:min(len(o.rest), maxVec)])
		switch err {
		case nil:
			o.rest = advance(o.rest, n)
		case unix.EINTR:
		case unix.EAGAIN:
			return true
		default:
			o.err = os.NewSyscallError("writev", err)
			return true
		}
	}
	return true
}

// advance drops the first n bytes of vec.
func advance(vec [][]byte, n int) [][]byte {
	for n > 0 && n >= len(vec[0]) {
		n -= len(vec[0])
		vec = vec[1:]
	}
	if n > 0 {
		vec[0] = vec[0][n:]
	}
	return vec
}

// help writes the rest, as slowly as the worker takes it.
func (o *outbox) help() {
	defer close(o.ended)
	if o.conn.secured() {
		o.err = o.writeRecords()
		return
	}
	_, o.err = o.rest.WriteTo(o.conn.raw)
}

// writeRecords writes the rest through TLS, small fragments together, so that
// each does not become a record of its own.
func (o *outbox) writeRecords() error {
	for _, b := range o.rest {
		if _, err := o.records.Write(b); err != nil {
			return err
		}
	}
	o.rest = nil
	return o.records.Flush()
}

// sent reports whether the request was written to its end. It does not wait.
func (o *outbox) sent() bool {
	if o.ended != nil {
		select {
		case <-o.ended:
		default:
			return false
		}
	}
	return o.err == nil
}

// wholly is sent, but gives a helper that has written all and not run since the
// time to say so. Otherwise a connection that is sound would be closed.
func (o *outbox) wholly() bool {
	if o.ended != nil && !o.sent() {
		grace := time.NewTimer(helperGrace)
		defer grace.Stop()
		select {
		case <-o.ended:
		case <-grace.C:
		}
	}
	return o.sent()
}

// join waits for the helper. The socket must be closed, or else it waits for
// the worker.
func (o *outbox) join() {
	if o.ended != nil {
		<-o.ended
	}
}

// forget lets go of the request's body.
func (o *outbox) forget() {
	clear(o.vec)
	o.rest = nil
}
