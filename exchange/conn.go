package exchange

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A conn is one connection to a worker, with the memory that its exchanges use
// one after another.
type conn struct {
	raw  net.Conn        // the socket
	rw   net.Conn        // the socket, or TLS over it
	tls  *tls.Config     // how rw was made; nil: it is the socket
	sys  syscall.RawConn // the socket, for what must not wait
	in   meter           // rw, counted
	br   *bufio.Reader   // over in, while it has anything to read; else nil
	used bool            // an exchange has ended well on it

	heads *sync.Pool // of *bufio.Reader: a stream lasts long, and needs none

	idleSince time.Time // guarded by pool.mu

	out outbox // what is to be written

	// The callbacks are made once, so that using them does not allocate.
	peek  func(fd uintptr) bool
	found error // of peek
	one   [1]byte
	abort func()
}

// vanished is after how long a worker counts as gone whose host answers nothing
// at all: neither bytes that we sent nor, while it has nothing to say, the
// kernel's keep-alive probes. Without it the kernel would try for a quarter of an
// hour (sgl-project/sglang#9926).
const vanished = 15 * time.Second

// newConn takes the ownership of raw if it returns no error.
func newConn(raw net.Conn, heads *sync.Pool) (*conn, error) {
	sc, ok := raw.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("connection of type %T has no descriptor", raw)
	}
	sys, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	if raw.LocalAddr().Network() == "tcp" {
		// An error means that the kernel does not know it: what is lost is time.
		_ = sys.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(vanished.Milliseconds()))
		})
	}
	c := &conn{raw: raw, rw: raw, sys: sys, heads: heads}
	c.in.r = raw
	c.out.init(c)
	c.peek = c.lookAhead
	c.abort = func() { c.raw.Close() }
	return c, nil
}

// secured reports whether there is TLS on the connection.
func (c *conn) secured() bool { return c.rw != c.raw }

// quiet reports whether the socket is open and nothing has come in, without
// waiting. Whatever an idle connection has to say is a reason not to use it: its
// end, an answer to no request, a TLS alert.
func (c *conn) quiet() bool {
	if err := c.sys.Read(c.peek); err != nil {
		return false
	}
	return errors.Is(c.found, unix.EAGAIN)
}

func (c *conn) lookAhead(fd uintptr) bool {
	_, _, c.found = syscall.Recvfrom(int(fd), c.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return true
}

// read reads of the answer's body: what came with the head, then from the socket
// itself, without a copy.
func (c *conn) read(p []byte) (int, error) {
	if c.br == nil {
		return c.in.Read(p)
	}
	n, err := c.br.Read(p)
	c.letGo()
	return n, err
}

// buffer makes br ready to read a head.
func (c *conn) buffer() {
	c.br = c.heads.Get().(*bufio.Reader) //nolint:forcetypeassert // the pool holds nothing else
	c.br.Reset(&c.in)
}

// letGo gives br back, once what came with the head has been read.
func (c *conn) letGo() {
	if c.br != nil && c.br.Buffered() == 0 {
		c.br.Reset(nil)
		c.heads.Put(c.br)
		c.br = nil
	}
}

// settle prepares the connection for its next exchange. It reports false when
// that cannot be, because something is left that nobody has read.
func (c *conn) settle() bool {
	c.used = true
	c.out.forget()
	if c.letGo(); c.br != nil {
		return false
	}
	if c.secured() && !c.drained() {
		return false
	}
	return c.raw.SetDeadline(time.Time{}) == nil
}

// close closes the socket, and waits for the helper goroutine if there is one.
func (c *conn) close() {
	// Not through TLS: its farewell would wait for a worker that takes nothing.
	c.raw.Close()
	c.out.join()
}

// A meter counts what is read from r during one exchange, and limits it while
// a head is read.
type meter struct {
	r     io.Reader
	got   int64
	limit int64
	err   error // the last error, which line readers tend to forget
}

// reset begins a new exchange, whose heads may have limit bytes.
func (m *meter) reset(limit int) { m.got, m.limit, m.err = 0, int64(limit), nil }

// lift ends the limit.
func (m *meter) lift() { m.limit = math.MaxInt64 }

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.got >= m.limit {
		m.err = fmt.Errorf("head is larger than %d bytes", m.limit)
		return 0, m.err
	}
	if left := m.limit - m.got; int64(len(p)) > left {
		p = p[:left]
	}
	n, err := m.r.Read(p)
	m.got += int64(n)
	m.err = err
	return n, err
}
