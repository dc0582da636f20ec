package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// certificatesEach is how often it is looked whether files with certificates have
// changed. Reading them is simpler than being told, and sees through renames and
// symbolic links.
const certificatesEach = 10 * time.Second

// certificates are what the listeners show and ask for, by their names. One that
// speaks no TLS is not among them. They are replaced as a whole.
type certificates map[string]*tls.Config

// loadCertificates reads all files that listeners need. The insider is let in by
// the data listener whatever authorities it asks for; nil: nobody is.
func (c Config) loadCertificates(insider *x509.Certificate) (certificates, error) {
	all := certificates{}
	var faults []error
	for _, name := range tlsListeners() {
		protocols := []string{"http/1.1"}
		who := (*x509.Certificate)(nil)
		if name == socketData {
			protocols, who = []string{"h2", "http/1.1"}, insider
		}
		cfg, err := c.tlsPlan(name).load(who, protocols...)
		if err != nil && !slices.ContainsFunc(faults, func(f error) bool { return f.Error() == err.Error() }) {
			faults = append(faults, err) // once, also if several listeners use the file
		}
		if cfg != nil {
			all[name] = cfg
		}
	}
	return all, errors.Join(faults...)
}

// equal reports whether both show and ask for the same.
func (c certificates) equal(other certificates) bool {
	same := func(a, b *tls.Config) bool {
		return a == b || a != nil && b != nil && slices.EqualFunc(a.Certificates[0].Certificate, b.Certificates[0].Certificate, bytes.Equal) &&
			(a.ClientCAs == nil) == (b.ClientCAs == nil) && (a.ClientCAs == nil || a.ClientCAs.Equal(b.ClientCAs))
	}
	return !slices.ContainsFunc(tlsListeners(), func(name string) bool { return !same(c[name], other[name]) })
}

// A wardrobe has the certificates in force. A connection gets those of the moment
// at which it is opened, and keeps them.
type wardrobe struct {
	current atomic.Pointer[certificates]
	insider *x509.Certificate // the watchdog's
	refused string            // what was wrong at the last look; Reload's callers take turns
}

// Reload reads the files that c names, and puts them in force. If anything is
// wrong with one, all stay as they were. Whether a listener speaks TLS is settled
// at its start.
func (w *wardrobe) Reload(c Config) (changed bool, err error) {
	next, err := c.loadCertificates(w.insider)
	if err != nil {
		return false, err
	}
	return w.put(next), nil
}

// put puts certificates in force, and reports whether they are others.
func (w *wardrobe) put(next certificates) (changed bool) {
	if old := w.current.Load(); old != nil && old.equal(next) {
		return false
	}
	w.current.Store(&next)
	return true
}

// of returns how the listener of that name speaks TLS; nil: it does not.
func (w *wardrobe) of(name string) *tls.Config {
	if (*w.current.Load())[name] == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if cfg := (*w.current.Load())[name]; cfg != nil {
				return cfg, nil
			}
			return nil, errors.New("there is no certificate for this listener any more")
		},
	}
}

// expiries returns when the certificate of each listener ends that shows one.
func (w *wardrobe) expiries() map[string]time.Time {
	all := map[string]time.Time{}
	for name, cfg := range *w.current.Load() {
		all[name] = cfg.Certificates[0].Leaf.NotAfter // X509KeyPair has parsed it
	}
	return all
}

// secure makes what guards the listeners, before they are opened.
func (d *daemon) secure(cfg Config) (err error) {
	if d.watchdog, err = newWatchdog(d.registry.Alive); err != nil {
		return err
	}
	d.quotas = d.newQuotas()
	d.tls.insider = d.watchdog.cert.Leaf
	_, err = d.tls.Reload(cfg)
	return err
}

// watchCertificates puts changed certificates in force, until ctx ends.
func (d *daemon) watchCertificates(ctx context.Context) error {
	tick := time.NewTicker(certificatesEach)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.renewCertificates()
		case <-ctx.Done():
			return nil
		}
	}
}

// renewCertificates looks once, and not while the configuration is read anew. Two files cannot be replaced at one moment, so
// that a certificate which does not fit its key is only worth a line if it is
// still so at the next look.
func (d *daemon) renewCertificates() {
	d.reload.mu.Lock()
	defer d.reload.mu.Unlock()
	changed, err := d.tls.Reload(d.current.Load().Config)
	switch {
	case err == nil:
		d.tls.refused = ""
		if changed {
			d.log.Info("certificates renewed", zap.Any("until", d.tls.expiries()))
		}
	case d.tls.refused == err.Error():
		d.log.Warn("certificates not renewed: those before stay in force", zap.Strings("faults", faultLines(err)))
		d.tls.refused = "said"
	case d.tls.refused != "said":
		d.tls.refused = err.Error()
	}
}
