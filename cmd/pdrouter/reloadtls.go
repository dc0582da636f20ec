package main

import (
	"crypto/tls"
	"crypto/x509"
	"reflect"
	"slices"
	"strings"
	"time"

	"pdrouter/admin"
)

// renewed tells of the certificates that are others than now, though the files
// have the same names: most are renewed like that.
func (s *inForce) renewed(now *inForce) (changes []admin.SettingChange) {
	change := func(setting, path string, before, after *tls.Config) {
		changes = append(changes, admin.SettingChange{Setting: setting, Old: path + until(before), New: path + until(after)})
	}
	if s.ClientCert == now.ClientCert && !reflect.DeepEqual(shown(s.Exchange.TLS), shown(now.Exchange.TLS)) {
		change("client-cert-path", s.ClientCert, now.Exchange.TLS, s.Exchange.TLS)
	}
	return changes
}

// reshown tells the same of what listeners show, and of the authorities that they
// ask for.
func reshown(next, now Config, after, before certificates) (changes []admin.SettingChange) {
	told := map[string]bool{}
	for _, name := range tlsListeners() {
		p, old, a, b := next.tlsPlan(name), now.tlsPlan(name), after[name], before[name]
		if a == nil || b == nil {
			continue
		}
		if p.cert == old.cert && !told[p.certFlag] && !reflect.DeepEqual(shown(a), shown(b)) {
			told[p.certFlag] = true
			changes = append(changes, admin.SettingChange{Setting: p.certFlag, Old: p.cert + until(b), New: p.cert + until(a)})
		}
		if slices.Equal(p.authorities, old.authorities) && !told[p.caFlag] && a.ClientCAs != nil && !a.ClientCAs.Equal(b.ClientCAs) {
			told[p.caFlag] = true
			paths := strings.Join(p.authorities, ", ")
			changes = append(changes, admin.SettingChange{Setting: p.caFlag, Old: paths, New: paths + ", with other authorities"})
		}
	}
	return changes
}

// rekeyed tells of files that have the same names, and other keys.
func (in *intake) rekeyed(old *intake) (changes []admin.SettingChange) {
	for _, f := range []struct{ setting, path, before string }{
		{"api-key-file", in.cfg.APIKeyFile, old.cfg.APIKeyFile},
		{"admin-api-key-file", in.cfg.AdminKeyFile, old.cfg.AdminKeyFile},
		{"worker-api-key-file", in.cfg.WorkerKeyFile, old.cfg.WorkerKeyFile},
	} {
		if f.path != "" && f.path == f.before && !slices.Equal(in.inFiles[f.setting], old.inFiles[f.setting]) {
			changes = append(changes, admin.SettingChange{Setting: f.setting, Old: f.path, New: f.path + ", with other keys"})
		}
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
