package workers

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

const (
	// maxKVMessage bounds one message, in bytes. A batch of 100 000 tokens, each
	// a block of its own, has about 15 MB.
	maxKVMessage = 24 << 20

	// kvMessageTime is how long a message may take from its first byte to its
	// last, and the handshake as a whole.
	kvMessageTime = 15 * time.Second
)

// A kvConn is a ZeroMQ connection to an engine. The library's sockets are not
// used but its protocol: they start goroutines of their own, connect again by
// themselves, which hides that events were missed, and believe any length that
// they are told.
type kvConn struct {
	zmq  *zmq4.Conn
	stop func() bool
	raw  net.Conn
}

// dialKV connects to an engine as a socket of that type. The connection ends
// with ctx.
func dialKV(ctx context.Context, address string, as zmq4.SocketType) (*kvConn, error) {
	dialling, cancel := context.WithTimeout(ctx, kvMessageTime)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(dialling, "tcp", strings.TrimPrefix(address, "tcp://"))
	if err != nil {
		return nil, err
	}
	c := &kvConn{raw: raw}
	c.stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(kvMessageTime))
	err = guarded(func() (err error) {
		c.zmq, err = zmq4.Open(&kvGuard{Conn: raw, in: bufio.NewReaderSize(raw, 64<<10), left: greetingBytes}, null.Security(), as, nil, false, nil)
		return err
	})
	if err != nil {
		c.close()
		return nil, err
	}
	_ = raw.SetDeadline(time.Time{})
	return c, nil
}

func (c *kvConn) close() {
	c.stop()
	_ = c.raw.Close()
}

// send sends a message of these frames.
func (c *kvConn) send(frames ...[]byte) error {
	_ = c.raw.SetWriteDeadline(time.Now().Add(kvMessageTime))
	return guarded(func() error { return c.zmq.SendMsg(zmq4.NewMsgFrom(frames...)) })
}

// receive returns the frames of the next message. It waits for it until the
// deadline, or for ever if that is zero.
func (c *kvConn) receive(deadline time.Time) (frames [][]byte, err error) {
	err = guarded(func() error {
		for {
			_ = c.raw.SetReadDeadline(deadline)
			msg, err := c.zmq.RecvMsg()
			if err != nil {
				return err
			}
			if msg.Type != zmq4.CmdMsg {
				frames = msg.Frames
				return nil
			}
		}
	})
	return frames, err
}

// guarded makes an error of a panic of the library, which reads past the end of
// some messages that are too short.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed ZeroMQ message: %v", p)
		}
	}()
	return do()
}

// greetingBytes is the length of what each side of a connection says first.
const greetingBytes = 64

// errKVTooLong reports a message beyond maxKVMessage.
var errKVTooLong = errors.New("a message is too long")

// A kvGuard is a connection that ends where a message grows too long, or takes
// too long: it reads the frames' heads that pass through it. The library asks
// for a head's bytes and a body's bytes in turn.
type kvGuard struct {
	net.Conn

	in    *bufio.Reader
	left  uint64 // of a body, or of the greeting
	head  [9]byte
	have  int    // of head
	whole uint64 // bytes of the message so far
	more  bool   // the message goes on after this frame
}

// Read implements net.Conn.
func (g *kvGuard) Read(p []byte) (int, error) {
	if g.left > 0 {
		n, err := g.in.Read(p[:min(uint64(len(p)), g.left)])
		g.left -= uint64(n)
		return n, err
	}
	want := 2
	if g.have > 0 && g.head[0]&2 != 0 { // the length has eight bytes
		want = 9
	}
	n, err := g.in.Read(p[:min(len(p), want-g.have)])
	if n > 0 && g.have == 0 && !g.more { // a message begins
		g.whole = 0
		_ = g.SetReadDeadline(time.Now().Add(kvMessageTime))
	}
	copy(g.head[g.have:], p[:n])
	g.have += n
	if err != nil {
		return n, err
	}
	return n, g.begin()
}

// begin begins a body when its head is whole.
func (g *kvGuard) begin() error {
	switch {
	case g.have < 2, g.head[0]&2 != 0 && g.have < 9:
		return nil
	case g.head[0]&2 != 0:
		g.left = binary.BigEndian.Uint64(g.head[1:])
	default:
		g.left = uint64(g.head[1])
	}
	g.have, g.more = 0, g.head[0]&1 != 0
	const perFrame = 64 // what each frame costs beside its body
	if g.left > maxKVMessage || g.whole+g.left+perFrame > maxKVMessage {
		return fmt.Errorf("%w: more than %d bytes", errKVTooLong, maxKVMessage)
	}
	g.whole += g.left + perFrame
	return nil
}
