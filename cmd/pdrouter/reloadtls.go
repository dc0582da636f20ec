package main

import (
	"crypto/tls"
	"crypto/x509"
	"reflect"
	"time"

	"pdrouter/admin"
)

// listenTLS returns how a listener of clients speaks TLS: by the certificate
// that is in force when a client comes. Nil: it does not.
func (d *daemon) listenTLS() *tls.Config {
	if d.current.Load().clients == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return d.current.Load().clients, nil
	}}
}

// renewed tells of the certificates that are others than now, though the files
// have the same names: most are renewed like that.
func (s *inForce) renewed(now *inForce) (changes []admin.SettingChange) {
	change := func(setting, path string, before, after *tls.Config) {
		changes = append(changes, admin.SettingChange{Setting: setting, Old: path + until(before), New: path + until(after)})
	}
	if s.TLSCert == now.TLSCert && !reflect.DeepEqual(shown(s.clients), shown(now.clients)) {
		change("tls-cert-path", s.TLSCert, now.clients, s.clients)
	}
	if s.ClientCert == now.ClientCert && !reflect.DeepEqual(shown(s.Exchange.TLS), shown(now.Exchange.TLS)) {
		change("client-cert-path", s.ClientCert, now.Exchange.TLS, s.Exchange.TLS)
	}
	return changes
}

// until says until when the certificate of c is good.
func until(c *tls.Config) string {
	if c == nil || len(c.Certificates) == 0 {
		return ""
	}
	cert, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
	if err != nil {
		return ""
	}
	return ", good until " + cert.NotAfter.UTC().Format(time.DateTime)
}

// sameTLS reports whether two configurations show and trust the same
// certificates.
func sameTLS(a, b *tls.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.DeepEqual(shown(a), shown(b)) &&
		(a.RootCAs == b.RootCAs || a.RootCAs != nil && b.RootCAs != nil && a.RootCAs.Equal(b.RootCAs))
}

// shown returns the certificates that c shows.
func shown(c *tls.Config) (all [][][]byte) {
	if c == nil {
		return nil
	}
	for _, cert := range c.Certificates {
		all = append(all, cert.Certificate)
	}
	return all
}
