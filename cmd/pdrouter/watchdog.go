package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"pdrouter/systemd"

	"go.uber.org/zap"
)

// A watchdog gives the service manager the sign of life that it asks for, as
// long as a request gets through the data listener to a lease. It fails when the
// process is wedged. It does not when workers are down, queues are full, or
// clients need keys or certificates: it has a secret of its own.
type watchdog struct {
	secret string
	cert   *tls.Certificate // shown to a listener that asks for one
	alive  func()
	from   atomic.Pointer[string] // where its last connection comes from
}

const (
	// watchdogHeader has the secret of a watchdog's request.
	watchdogHeader = "X-Pdrouter-Watchdog"

	// aliveShare is what part of the time that the service manager waits for a
	// sign of life there is from one to the next.
	aliveShare = 3
)

func newWatchdog(alive func()) (*watchdog, error) {
	cert, err := newInsider()
	if err != nil {
		return nil, fmt.Errorf("make the watchdog's certificate: %w", err)
	}
	return &watchdog{secret: rand.Text() + rand.Text(), cert: cert, alive: alive}, nil
}

// newInsider returns a certificate that nobody has signed, and that can sign
// nothing. The data listener takes it as it is, because it is one of those that it
// trusts itself; its key is nowhere but in this process.
func newInsider() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pdrouter watchdog " + rand.Text()},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), // clocks may jump
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// guard answers a watchdog's requests, and leaves the others to next.
func (w *watchdog) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if got := r.Header[watchdogHeader]; len(got) == 1 && subtle.ConstantTimeCompare([]byte(got[0]), []byte(w.secret)) == 1 {
			w.alive()
			out.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(out, r)
	})
}

// watchAlive gives signs of life until done is closed, if they are asked for.
// Once ctx has ended, the data listener is closed, and what is left to be seen is
// whether a lease can be had.
func (d *daemon) watchAlive(ctx context.Context, done <-chan struct{}) error {
	within, err := systemd.Watchdog()
	if err != nil || within == 0 {
		d.tell(err)
		return nil
	}
	d.before.isMain(ctx)
	client := d.watchdog.client(d.data, d.data.Addr().Network() != unixNetwork && d.tls.of(socketData) != nil)
	tick := time.NewTicker(within / aliveShare)
	defer tick.Stop()
	for {
		err := d.watchdog.ask(ctx, client, within/aliveShare)
		if hasLeft(ctx) {
			return nil // it is another one's life now
		}
		if ctx.Err() != nil {
			d.watchdog.alive()
			err = nil
		}
		if err == nil {
			d.tell(systemd.Alive())
		} else {
			d.log.Error("no sign of life: a request to the data listener was not answered", zap.Error(err), zap.Duration("restart_within", within))
		}
		select {
		case <-tick.C:
		case <-done:
			return nil
		}
	}
}

// ask sends one request.
func (w *watchdog) ask(ctx context.Context, client *http.Client, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	scheme := "http"
	if t, ok := client.Transport.(*http.Transport); ok && t.TLSClientConfig != nil {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost/", http.NoBody)
	if err != nil {
		return err
	}
	req.Header[watchdogHeader] = []string{w.secret}
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != http.StatusNoContent {
		err = errors.Join(err, fmt.Errorf("status %d", answer.StatusCode))
	}
	return err
}

// client returns a client that reaches ln on a new connection each time, so that
// accepting them is seen to work too.
func (w *watchdog) client(ln net.Listener, encrypted bool) *http.Client {
	network, address := ln.Addr().Network(), reachable(ln.Addr())
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return w.dial(ctx, network, address)
		},
	}
	if encrypted {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*w.cert}} //nolint:gosec // it speaks to itself, and the secret is good for nothing else
	}
	return &http.Client{Transport: t}
}

// reachable returns where a listener is reached from this host: one that listens
// at every address is at the loopback one.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	local := *tcp
	local.IP = net.IPv4(127, 0, 0, 1)
	if tcp.IP.To4() == nil {
		local.IP = net.IPv6loopback
	}
	return local.String()
}
