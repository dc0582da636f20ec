package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	alive  func()
}

const (
	// watchdogHeader has the secret of a watchdog's request.
	watchdogHeader = "X-Pdrouter-Watchdog"

	// aliveShare is what part of the time that the service manager waits for a
	// sign of life there is from one to the next.
	aliveShare = 3
)

func newWatchdog(alive func()) *watchdog { return &watchdog{rand.Text() + rand.Text(), alive} }

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
	client := d.watchdog.client(d.data, d.data.Addr().Network() != unixNetwork && d.cfg.TLSCert != "")
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
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	if encrypted {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // it speaks to itself, and the secret is good for nothing else
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
