package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// serverTLS returns how clients are spoken to, or nil for plain HTTP.
func (c Config) serverTLS() (*tls.Config, error) {
	certs, err := loadPair("tls-cert-path", c.TLSCert, "tls-key-path", c.TLSKey)
	if err != nil || certs == nil {
		return nil, err
	}
	return &tls.Config{Certificates: certs, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// workerTLS returns how workers with an https URL are spoken to, or nil where
// nothing was said about it: the system's authorities, no client certificate.
func (c Config) workerTLS() (*tls.Config, error) {
	certs, pairFault := loadPair("client-cert-path", c.ClientCert, "client-key-path", c.ClientKey)
	roots, rootFault := loadAuthorities(c.CACertPaths)
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

// loadAuthorities returns the system's authorities and those in paths, or nil
// if there are no paths.
func loadAuthorities(paths []string) (*x509.CertPool, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	var faults []error
	for _, path := range paths {
		pem, err := readNamed("ca-cert-paths", path)
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("ca-cert-paths: %q holds no certificate", path)
		}
		faults = append(faults, err)
	}
	return pool, errors.Join(faults...)
}

// readNamed reads the file that flag names.
func readNamed(flag, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return text, nil
}
