package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newCert writes a certificate that signs itself and its key, and returns the
// paths of both.
func newCert(t *testing.T) (certPath, keyPath string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "router"}, DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "CERTIFICATE", cert), writePEM(t, "PRIVATE KEY", keyDER)
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCertificatesAreLoaded(t *testing.T) {
	cert, key := newCert(t)
	cfg := pairConfig()
	cfg.TLSCert, cfg.TLSKey, cfg.ClientCert, cfg.ClientKey, cfg.CACertPaths = cert, key, cert, key, []string{cert}
	server, err := cfg.loadCertificates(nil)
	if err != nil || len(server) != 1 || len(server[socketData].Certificates) != 1 {
		t.Errorf("loadCertificates() = %v, %v; want one certificate", server, err)
	}
	worker, err := cfg.workerTLS()
	if err != nil || len(worker.Certificates) != 1 || worker.RootCAs == nil {
		t.Errorf("workerTLS() = %v, %v; want a certificate and authorities", worker, err)
	}
	if err := cfg.Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
}

func TestWithoutCertificatesNothingIsSaid(t *testing.T) {
	cfg := pairConfig()
	if server, err := cfg.loadCertificates(nil); len(server) != 0 || err != nil {
		t.Errorf("loadCertificates() = %v, %v; want none", server, err)
	}
	if worker, err := cfg.workerTLS(); worker != nil || err != nil {
		t.Errorf("workerTLS() = %v, %v; want nil, nil", worker, err)
	}
}

func TestCertificateFaultsNameTheFile(t *testing.T) {
	cert, key := newCert(t)
	_, otherKey := newCert(t)
	tests := []struct {
		name string
		edit func(c *Config)
		want []string
	}{
		{"a key of another certificate", func(c *Config) { c.TLSCert, c.TLSKey = cert, otherKey }, []string{"tls-cert-path", cert, otherKey}},
		{"a key for a certificate", func(c *Config) { c.ClientCert, c.ClientKey = key, key }, []string{"client-cert-path", key}},
		{"an authority without certificate", func(c *Config) { c.CACertPaths = []string{cert, key} }, []string{"ca-cert-paths", key, "holds no certificate"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := pairConfig()
			tt.edit(&cfg)
			err := cfg.Validate()
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Validate() = %v, does not name %q", err, want)
				}
			}
		})
	}
}
