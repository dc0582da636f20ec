package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// tlsListeners are the names of the listeners that may speak TLS, as
// --tls-listeners has them. They are those of sockets too.
func tlsListeners() []string {
	return []string{socketData, socketMetrics, socketHealth, socketAdmin}
}

func (in *intake) tlsSettings() []setting {
	c := &in.cfg
	return []setting{
		{name: "tls-cert-path", value: newText(&c.TLSCert, "file"), usage: "certificate (PEM) for clients; none: plain HTTP. It and all others are read again when they change"},
		{name: "tls-key-path", value: newText(&c.TLSKey, "file"), usage: "its key"},
		{name: "tls-client-ca-paths", value: newTexts(&c.TLSClientCAs, "file..."), usage: "authorities (PEM) of which a client must show a certificate; none: no certificate is asked for"},
		{name: "tls-listeners", value: newChoices(&c.TLSListeners, tlsListeners()), choices: tlsListeners(), usage: "which listeners use these: data, metrics, health, admin. A unix socket has no TLS"},
		{name: "prometheus-tls-cert-path", value: newText(&c.MetricsTLSCert, "file"), usage: "another certificate (PEM) for Prometheus"},
		{name: "prometheus-tls-key-path", value: newText(&c.MetricsTLSKey, "file"), usage: "its key"},
		{name: "prometheus-tls-client-ca-paths", value: newTexts(&c.MetricsTLSClientCAs, "file..."), usage: "other authorities (PEM), of which Prometheus must show a certificate"},
		{name: "admin-tls-client-ca-paths", value: newTexts(&c.AdminTLSClientCAs, "file..."), usage: "other authorities (PEM), of which admins must show a certificate at --admin-port"},
		{name: "ca-cert-paths", value: newTexts(&c.CACertPaths, "file..."), usage: "authorities (PEM) trusted for workers, beside those of the system"},
		{name: "client-cert-path", value: newText(&c.ClientCert, "file"), usage: "certificate (PEM) that workers are shown"},
		{name: "client-key-path", value: newText(&c.ClientKey, "file"), usage: "its key"},
	}
}

// A tlsPlan is what one listener shows, and what it asks for.
type tlsPlan struct {
	certFlag, cert string // empty: no TLS
	keyFlag, key   string
	caFlag         string
	authorities    []string // empty: no certificate is asked for
}

// tlsPlan returns the plan of the listener of that name.
func (c Config) tlsPlan(name string) tlsPlan {
	p := tlsPlan{certFlag: "tls-cert-path", keyFlag: "tls-key-path", caFlag: "tls-client-ca-paths"}
	if slices.Contains(c.TLSListeners, name) {
		p.cert, p.key, p.authorities = c.TLSCert, c.TLSKey, c.TLSClientCAs
	}
	if name == socketMetrics && c.MetricsTLSCert+c.MetricsTLSKey != "" {
		p.certFlag, p.cert, p.keyFlag, p.key = "prometheus-tls-cert-path", c.MetricsTLSCert, "prometheus-tls-key-path", c.MetricsTLSKey
	}
	if name == socketMetrics && len(c.MetricsTLSClientCAs) > 0 {
		p.caFlag, p.authorities = "prometheus-tls-client-ca-paths", c.MetricsTLSClientCAs
	}
	if name == socketAdmin && len(c.AdminTLSClientCAs) > 0 {
		p.caFlag, p.authorities = "admin-tls-client-ca-paths", c.AdminTLSClientCAs
	}
	return p
}

// checkTLS reports what was asked for and would not be done: a listener that is
// believed to ask for certificates must do so.
func (c Config) checkTLS() error {
	var faults []error
	for _, name := range tlsListeners() {
		p := c.tlsPlan(name)
		if p.cert+p.key != "" {
			continue
		}
		if len(p.authorities) > 0 {
			faults = append(faults, fmt.Errorf("%s: the listener %q has no TLS: give --tls-cert-path, and %s to --tls-listeners", p.caFlag, name, name))
		} else if name != socketData && slices.Contains(c.TLSListeners, name) {
			faults = append(faults, fmt.Errorf("tls-listeners: %q needs --tls-cert-path", name))
		}
	}
	return errors.Join(faults...)
}

// load returns the plan as net/http wants it, or nil for plain HTTP. Among the
// certificates that clients may show is insider, if it is not nil.
func (p tlsPlan) load(insider *x509.Certificate, protocols ...string) (*tls.Config, error) {
	certs, certFault := loadPair(p.certFlag, p.cert, p.keyFlag, p.key)
	pool, poolFault := loadAuthorities(p.caFlag, p.authorities, x509.NewCertPool)
	if err := errors.Join(certFault, poolFault); err != nil || certs == nil {
		return nil, err
	}
	cfg := &tls.Config{Certificates: certs, MinVersion: tls.VersionTLS12, NextProtos: protocols}
	if pool != nil {
		if insider != nil {
			pool.AddCert(insider)
		}
		cfg.ClientCAs, cfg.ClientAuth = pool, tls.RequireAndVerifyClientCert
		// A ticket would let in a client whose authority is not trusted any more.
		cfg.SessionTicketsDisabled = true
	}
	return cfg, nil
}

// workerTLS returns how workers with an https URL are spoken to, or nil where
// nothing was said about it: the system's authorities, no client certificate.
func (c Config) workerTLS() (*tls.Config, error) {
	certs, pairFault := loadPair("client-cert-path", c.ClientCert, "client-key-path", c.ClientKey)
	roots, rootFault := loadAuthorities("ca-cert-paths", c.CACertPaths, systemAuthorities)
	if err := errors.Join(pairFault, rootFault); err != nil {
		return nil, err
	}
	if certs == nil && roots == nil {
		return nil, nil
	}
	return &tls.Config{Certificates: certs, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// loadPair loads a certificate and its key. Both paths empty: nil.
func loadPair(certFlag, certPath, keyFlag, keyPath string) ([]tls.Certificate, error) {
	switch {
	case certPath == "" && keyPath == "":
		return nil, nil
	case keyPath == "":
		return nil, fmt.Errorf("%s: %q needs --%s beside it", certFlag, certPath, keyFlag)
	case certPath == "":
		return nil, fmt.Errorf("%s: %q needs --%s beside it", keyFlag, keyPath, certFlag)
	}
	certPEM, certFault := readNamed(certFlag, certPath)
	keyPEM, keyFault := readNamed(keyFlag, keyPath)
	if err := errors.Join(certFault, keyFault); err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s %q with %s %q: %w", certFlag, certPath, keyFlag, keyPath, err)
	}
	return []tls.Certificate{cert}, nil
}

// systemAuthorities returns those that this host trusts.
func systemAuthorities() *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return x509.NewCertPool()
	}
	return pool
}

// loadAuthorities returns the authorities of base and those in paths, or nil if
// there are no paths.
func loadAuthorities(flag string, paths []string, base func() *x509.CertPool) (*x509.CertPool, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	pool := base()
	var faults []error
	for _, path := range paths {
		pem, err := readNamed(flag, path)
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s: %q holds no certificate", flag, path)
		}
		faults = append(faults, err)
	}
	return pool, errors.Join(faults...)
}
