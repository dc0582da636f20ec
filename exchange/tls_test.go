package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTLS(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			url, trust := serveTLS(t, func(l *line) {
				saying(okAnswer)(l)
				if got := l.Conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != "http/1.1" {
					t.Errorf("protocol = %q", got)
				}
			})
			trust.MaxVersion = version
			trust.NextProtos = []string{"h2"} // must not be offered
			p := dialled(t, url, func(c *Config) { c.TLS = trust })
			for range 3 {
				if got := exchanged(t, p, post()); got != "ok" {
					t.Errorf("body = %q", got)
				}
			}
			wantStats(t, p, Stats{Open: 1, Idle: 1})
		})
	}
}

func TestTLSOfAStranger(t *testing.T) {
	url, _ := serveTLS(t, func(l *line) { l.request() })
	p := dialled(t, url)
	_, err := p.Do(t.Context(), post())
	e := wantError(t, err)
	var unknown *tls.CertificateVerificationError
	if e.Phase != Dial || e.Timeout || !errors.As(err, &unknown) {
		t.Errorf("Do() = %v (%+v), want an unknown certificate", err, e)
	}
	wantStats(t, p, Stats{})
}

func TestTLSBodyToTheEndNeedsAFarewell(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\n\r\nhello"
	for _, polite := range []bool{true, false} {
		url, trust := serveTLS(t, func(l *line) {
			l.request()
			l.say(answer)
			if !polite {
				l.Conn.(*tls.Conn).NetConn().Close()
			}
		})
		p := dialled(t, url, func(c *Config) { c.TLS = trust })
		a, err := p.Do(t.Context(), post())
		if err != nil {
			t.Fatal(err)
		}
		body, err := readAll(a)
		if body != "hello" || (err == nil) != polite {
			t.Errorf("body = %q, %v; the engine said farewell: %v", body, err, polite)
		}
		a.Close()
	}
}

// certificates returns the two sides of a private CA: httptest's own, which is
// made for 127.0.0.1 and trusted by nobody else.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}, &tls.Config{RootCAs: roots}
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
