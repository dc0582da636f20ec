package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An authority signs certificates in tests. Its own is at path.
type authority struct {
	path string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{path: filepath.Join(t.TempDir(), "ca.pem")}
	tmpl := template(name)
	tmpl.IsCA, tmpl.KeyUsage = true, x509.KeyUsageCertSign
	der, key := sign(t, tmpl, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	writeBlock(t, a.path, "CERTIFICATE", der)
	return a
}

// template is a certificate of an hour for this host.
func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// sign returns a certificate by a, or one that signs itself.
func sign(t *testing.T, tmpl *x509.Certificate, a *authority) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, by := tmpl, key
	if a != nil {
		parent, by = a.cert, a.key
	}
	if der, err = x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, by); err != nil {
		t.Fatal(err)
	}
	return der, key
}

func writeBlock(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issueTo writes a certificate by a and its key to these paths.
func (a *authority) issueTo(t *testing.T, certPath, keyPath, name string) {
	t.Helper()
	der, key := sign(t, template(name), a)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeBlock(t, certPath, "CERTIFICATE", der)
	writeBlock(t, keyPath, "PRIVATE KEY", keyDER)
}

// issue writes a certificate by a and its key, and returns their paths.
func (a *authority) issue(t *testing.T, name string) (certPath, keyPath string) {
	t.Helper()
	dir := t.TempDir()
	certPath, keyPath = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.issueTo(t, certPath, keyPath, name)
	return certPath, keyPath
}

// client returns one that a has signed, after edit.
func (a *authority) client(t *testing.T, edit func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	tmpl := template("client")
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if edit != nil {
		edit(tmpl)
	}
	der, key := sign(t, tmpl, a)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// showing returns a client that trusts the authority and shows a certificate,
// whatever a listener asks for; nil: none.
func showing(t *testing.T, trusted *authority, cert *tls.Certificate, major int) *http.Client {
	t.Helper()
	client := newTLSClient(t, trusted.path, major)
	client.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if cert == nil {
			return new(tls.Certificate), nil
		}
		return cert, nil
	}
	return client
}

// get returns the status of an answer, 0 if there is none, and the name in the
// certificate that was shown.
func get(client *http.Client, url string) (status int, shown string) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	if resp.TLS != nil {
		shown = resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	return resp.StatusCode, shown
}
