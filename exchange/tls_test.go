package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/sys/unix"
)

// certificates returns the two sides of a private CA: httptest's own, which is
// made for 127.0.0.1 and trusted by nobody else.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: roots}
}

// corked says s and TLS's farewell in one segment, and leaves the socket open.
func corked(l *line, s string) {
	secured := l.Conn.(*tls.Conn)
	raw, err := secured.NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		l.t.Error(err)
		return
	}
	cork := func(on int) {
		_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, on) })
		if err != nil {
			l.t.Error(err)
		}
	}
	cork(1)
	l.say(s)
	_ = secured.CloseWrite()
	cork(0)
	l.untilClosed()
}
