package exchange

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestNewPeer(t *testing.T) {
	tests := []struct {
		url                    string
		network, address, host string
		err                    string
	}{
		{url: "http://10.0.0.1:30000", network: "tcp", address: "10.0.0.1:30000", host: "10.0.0.1:30000"},
		{url: "http://gpu-7", network: "tcp", address: "gpu-7:80", host: "gpu-7"},
		{url: "http://gpu-7/", network: "tcp", address: "gpu-7:80", host: "gpu-7"},
		{url: "https://gpu-7", network: "tcp", address: "gpu-7:443", host: "gpu-7"},
		{url: "http://[::1]:30000", network: "tcp", address: "[::1]:30000", host: "[::1]:30000"},
		{url: "unix:/run/engine.sock", network: "unix", address: "/run/engine.sock", host: "localhost"},
		{url: "unix:///run/engine.sock", network: "unix", address: "/run/engine.sock", host: "localhost"},
		{url: "", err: "want scheme"},
		{url: "10.0.0.1:30000", err: "parse worker URL"},
		{url: "gpu-7:30000", err: "want scheme"},
		{url: "grpc://gpu-7:30000", err: `scheme "grpc"`},
		{url: "http://", err: "want scheme"},
		{url: "http://gpu-7/v1", err: "without a path"},
		{url: "http://gpu-7?a=b", err: "query"},
		{url: "http://gpu-7:port", err: "parse worker URL"},
		{url: "http://user:secret@gpu-7", err: "user"},
		{url: "http://user:secret@gpu-7:port", err: "parse worker URL"},
		{url: "http://gpu-7\r\nX: y", err: "parse worker URL"},
		{url: "unix:", err: "unix:/path"},
		{url: "unix://host/path", err: "unix:/path"},
	}
	for _, test := range tests {
		t.Run(test.url, func(t *testing.T) {
			p, err := NewPeer(test.url, DefaultConfig())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret") {
					t.Fatalf("NewPeer() = %v, want %q and no password", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.network != test.network || p.address != test.address || p.host != test.host {
				t.Errorf("peer = %s %s %s, want %s %s %s", p.network, p.address, p.host, test.network, test.address, test.host)
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("Validate() of the default = %v", err)
	}
	err := Config{IdleTimeout: -1}.Validate()
	for _, want := range []string{"connect-timeout-secs", "upstream-pool-idle-timeout-secs", "connection limits"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want %q in it", err, want)
		}
	}
	if _, err := NewPeer("http://gpu-7", Config{}); err == nil {
		t.Error("NewPeer() takes an invalid configuration")
	}
}

func TestDialRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	for _, url := range []string{url, "unix:" + t.TempDir() + "/absent.sock"} {
		p := dialled(t, url)
		_, err := p.Do(t.Context(), post())
		if e := wantError(t, err); e.Phase != Dial || e.Stale || e.Timeout {
			t.Errorf("Do() = %+v, want a refused dial", e)
		}
		wantStats(t, p, Stats{})
	}
}

func TestConnectTimeoutIsOurs(t *testing.T) {
	for name, engine := range map[string]func(*testing.T, chan<- struct{}) *Peer{
		"while dialling": fullBacklog, "in the TLS handshake": deafTLS,
	} {
		t.Run(name, func(t *testing.T) {
			p := engine(t, make(chan struct{}))
			p.manner.Store(&manner{timeout: 20 * time.Millisecond, tls: p.manner.Load().tls})
			_, err := p.Do(t.Context(), post())
			e := wantError(t, err)
			if e.Phase != Dial || !e.Timeout || e.Stale {
				t.Errorf("Do() = %+v, want a dial that timed out", e)
			}
			if errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "within 20ms") {
				t.Errorf("Do() = %v, want it to name our own bound", err)
			}
			wantStats(t, p, Stats{})
		})
	}
}

func TestUnixSocket(t *testing.T) {
	p := dialled(t, serveUnix(t, saying(okAnswer)))
	for range 3 {
		if got := exchanged(t, p, post()); got != "ok" {
			t.Errorf("body = %q", got)
		}
	}
	wantStats(t, p, Stats{Open: 1, Idle: 1})
}
