package exchange

import (
	"crypto/tls"
	"errors"
	"testing"
	"time"
)

// TestReloadTrustsAnew: connections that were opened by what was trusted before
// are not used again, also if an exchange was under way on one.
func TestReloadTrustsAnew(t *testing.T) {
	url, trust := serveTLS(t, saying(okAnswer))
	p := dialled(t, url, func(c *Config) { c.TLS = trust })
	cfg := p.cfg
	if got := exchanged(t, p, post()); got != "ok" {
		t.Fatalf("body = %q", got)
	}

	p.Reload(cfg)

	wantStats(t, p, Stats{Open: 1, Idle: 1}) // nothing has changed

	under, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	cfg.TLS = &tls.Config{}
	p.Reload(cfg)
	if body, err := readAll(under); body != "ok" || err != nil {
		t.Errorf("the exchange that was under way ended with %q, %v", body, err)
	}
	under.Close()
	wantStats(t, p, Stats{})
	var unknown *tls.CertificateVerificationError
	if _, err := p.Do(t.Context(), post()); !errors.As(err, &unknown) {
		t.Errorf("Do() = %v, want an engine that is not trusted any more", err)
	}

	cfg.TLS = trust
	p.Reload(cfg)
	if got := exchanged(t, p, post()); got != "ok" {
		t.Errorf("body = %q", got)
	}
}

// TestReloadOfTimes holds for connections that are there already.
func TestReloadOfTimes(t *testing.T) {
	url := serve(t, saying(okAnswer))
	p := dialled(t, url)
	exchanged(t, p, post())
	wantStats(t, p, Stats{Open: 1, Idle: 1})
	cfg := p.cfg
	cfg.IdleTimeout, cfg.ConnectTimeout = time.Nanosecond, 7*time.Second
	p.Reload(cfg)
	if c, err := p.pool.take(time.Now().Add(time.Millisecond)); c != nil || err != nil {
		t.Errorf("take = %v, %v; want none, it has been idle for too long", c, err)
	}
	p.pool.release()
	if got := p.manner.Load().timeout; got != 7*time.Second {
		t.Errorf("connecting may take %v, want 7s", got)
	}
}
