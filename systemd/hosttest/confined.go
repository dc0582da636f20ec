package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// certificate returns one for loopback, and its key, as PEM.
func certificate() (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	coded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return block("CERTIFICATE", signed), block("PRIVATE KEY", coded), nil
}

const (
	blue = "pdrouter@blue.service"

	blueConfig = `prefill: [http://127.0.0.1:21000 21200]
decode: [http://127.0.0.1:21100]
host: 127.0.0.1
port: 30101
prometheus-host: 127.0.0.1
prometheus-port: 29101
tls-cert-path: /run/credentials/pdrouter@blue.service/cert.pem
tls-key-path: /run/credentials/pdrouter@blue.service/key.pem
`
	blueDropIn = `[Service]
LoadCredential=cert.pem:/etc/pdrouter/cert.pem
LoadCredential=key.pem:/etc/pdrouter/key.pem
`
)

// credentials runs a second router beside the first one, with TLS.
func (h *host) credentials() (string, error) {
	cert, key, err := certificate()
	if err != nil {
		return "", err
	}
	err = errors.Join(
		write("/etc/pdrouter/blue.yaml", blueConfig, 0o644),
		write("/etc/pdrouter/cert.pem", cert, 0o600),
		write("/etc/pdrouter/key.pem", key, 0o600),
		write("/etc/systemd/system/pdrouter@blue.service.d/tls.conf", blueDropIn, 0o644),
		h.do("systemctl daemon-reload", "systemctl start "+blue),
	)
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cert))
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://127.0.0.1:30101/readiness") //nolint:noctx // it is bounded by its timeout
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	if _, err := os.Stat("/run/pdrouter-blue/admin.sock"); err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("readiness is %d, its admin socket %w", resp.StatusCode, err)
	}
	for _, path := range []string{"/run/credentials/" + blue + "/key.pem", "/etc/pdrouter/key.pem", "/var/lib/private/pdrouter/index.snapshot"} {
		if text, err := h.output("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", path); err == nil {
			return "", fmt.Errorf("nobody may read %s: %.20q", path, text)
		}
	}
	other, err := h.output("nsenter", "-t", h.mainPID(), "-m", "cat", "/run/credentials/"+blue+"/key.pem")
	if err == nil {
		err = h.asService("cat", "/run/credentials/"+blue+"/key.pem")
		if err == nil {
			return "", fmt.Errorf("the other router may read the key: %.20q", other)
		}
	}
	return "nobody, and no other router, reads them", h.do("systemctl stop " + blue)
}

// asService runs a command with the user and the mounts of the router.
func (h *host) asService(args ...string) error {
	pid := h.mainPID()
	owner, err := h.output("stat", "-c", "%u:%g", "/proc/"+pid)
	if err != nil {
		return err
	}
	uid, gid, _ := strings.Cut(owner, ":")
	_, err = h.output("nsenter", append([]string{"-t", pid, "-m", "setpriv", "--reuid=" + uid, "--regid=" + gid, "--clear-groups"}, args...)...)
	return err
}

func (h *host) writes() (string, error) {
	pid := h.mainPID()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return "", err
	}
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), want) {
			return "", fmt.Errorf("the process has not %q", want)
		}
	}
	may, mayNot := []string{"/run/pdrouter", "/var/lib/pdrouter", "/tmp", "/var/tmp"}, []string{"/etc/pdrouter", "/etc", "/usr/bin", "/usr/lib", "/var/lib", "/var", "/run", "/opt", "/home", "/root", "/"}
	for _, dir := range may {
		if err := h.asService("touch", dir+"/hosttest"); err != nil {
			return "", err
		}
	}
	for _, dir := range mayNot {
		// Nor may root, if it were that, with the service's mounts.
		_, asRoot := h.output("nsenter", "-t", pid, "-m", "touch", dir+"/hosttest")
		if asRoot == nil && dir != "/run" || h.asService("touch", dir+"/hosttest") == nil {
			return "", fmt.Errorf("it can write in %s", dir)
		}
	}
	return fmt.Sprintf("%d places refused", len(mayNot)), h.asService("rm", "/var/lib/pdrouter/hosttest")
}
