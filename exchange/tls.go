package exchange

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// clientTLS returns base, or the default, made to fit this package.
func clientTLS(base *tls.Config, host string) *tls.Config {
	c := &tls.Config{}
	if base != nil {
		c = base.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = host
	}
	c.NextProtos = []string{"http/1.1"} // never HTTP/2, which we do not speak
	return c
}

// secure puts TLS between the socket and what is read and written.
func (c *conn) secure(ctx context.Context, cfg *tls.Config) error {
	s := &overTLS{}
	s.Conn = tls.Client(&s.under, cfg)
	s.under.Conn = c.raw
	c.rw, c.in.r, c.tls = s, s, cfg
	c.out.records = bufio.NewWriter(s)
	return s.HandshakeContext(ctx)
}

// drained reports whether TLS holds nothing that it has read from the socket
// and not handed on, as a closing alert behind the last byte of an answer. A
// deadline that has passed makes Read look at that and at nothing else.
func (c *conn) drained() bool {
	if c.raw.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	n, err := c.rw.Read(c.one[:])
	return n == 0 && isTimeout(err)
}

// An overTLS is TLS that does not take an end for a farewell. In
// crypto/tls both are io.EOF; but anybody on the way can end a TCP connection,
// and would cut a body that goes on to the end.
type overTLS struct {
	*tls.Conn
	under sighted
}

// Read implements io.Reader. It returns io.EOF only if the worker said so.
func (s *overTLS) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.under.ended {
		return n, cut(err)
	}
	return n, err
}

// A sighted connection knows whether it has seen its end.
type sighted struct {
	net.Conn
	ended bool
}

// Read implements io.Reader.
func (s *sighted) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.ended = s.ended || errors.Is(err, io.EOF)
	return n, err
}
