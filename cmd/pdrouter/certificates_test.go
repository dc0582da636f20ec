package main

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"pdrouter/keys"
	"pdrouter/sim"
)

// TestClientCertificates: with --tls-client-ca-paths nobody gets a word in who
// shows none by these authorities, but for the watchdog.
func TestClientCertificates(t *testing.T) {
	servers, clients, others := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "others")
	cert, key := servers.issue(t, "router")
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) {
		c.TLSCert, c.TLSKey, c.TLSClientCAs, c.Router.APIKeys = cert, key, []string{clients.path}, keys.Of("key")
	}})
	insider := &authority{cert: f.watchdog.cert.Leaf, key: f.watchdog.cert.PrivateKey.(*ecdsa.PrivateKey)}
	for _, tt := range []struct {
		name   string
		cert   *tls.Certificate
		status int
	}{
		{"a client", clients.client(t, nil), 200},
		{"nobody", nil, 0},
		{"a client of another authority", others.client(t, nil), 0},
		{"a client of the authority that signed the router's", servers.client(t, nil), 0},
		{"one who signed himself", (*authority)(nil).client(t, nil), 0},
		{"one whose time is over", clients.client(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), 0},
		{"one whose time has not come", clients.client(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), 0},
		{"a server", clients.client(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), 0},
		{"one whom the watchdog has signed", insider.client(t, nil), 0},
		{"one by the watchdog's name", (*authority)(nil).client(t, func(c *x509.Certificate) { c.Subject = f.watchdog.cert.Leaf.Subject }), 0},
	} {
		for major := 1; major <= 2; major++ {
			t.Run(fmt.Sprintf("%s, HTTP/%d", tt.name, major), func(t *testing.T) {
				if status, _ := get(showing(t, servers, tt.cert, major), f.base+"/readiness"); status != tt.status {
					t.Errorf("status = %d, want %d (0: no connection)", status, tt.status)
				}
			})
		}
	}
	t.Run("the watchdog", func(t *testing.T) {
		if err := f.watchdog.ask(t.Context(), f.watchdog.client(f.data, true), 5*time.Second); err != nil {
			t.Errorf("no sign of life: %v", err)
		}
		other, err := newWatchdog(func() {})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.ask(t.Context(), other.client(f.data, true), 5*time.Second); err == nil {
			t.Error("the watchdog of another process is let in")
		}
	})
	t.Run("a key is asked for besides", func(t *testing.T) {
		body, _ := chatBody(t, false)
		if status, answer := post(t, showing(t, servers, clients.client(t, nil), 1), f.base+"/v1/chat/completions", body); status != 401 {
			t.Errorf("answer = %d %s, want 401", status, answer)
		}
	})
}

// TestEveryListenerMayHaveTLS, and ask for certificates of its own authorities.
func TestEveryListenerMayHaveTLS(t *testing.T) {
	servers, clients, metrics, admins := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "metrics"), newAuthority(t, "admins")
	cert, key := servers.issue(t, "router")
	metricsCert, metricsKey := servers.issue(t, "metrics")
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) {
		c.TLSCert, c.TLSKey, c.TLSListeners, c.TLSClientCAs = cert, key, tlsListeners(), []string{clients.path}
		c.MetricsTLSCert, c.MetricsTLSKey, c.MetricsTLSClientCAs, c.AdminTLSClientCAs = metricsCert, metricsKey, []string{metrics.path}, []string{admins.path}
		c.HealthCheckPort, c.AdminPort, c.AdminKeys = freePort(t), freePort(t), keys.Of(adminKey)
	}})
	show := map[string]*tls.Certificate{"clients": clients.client(t, nil), "metrics": metrics.client(t, nil), "admins": admins.client(t, nil), "nobody": nil}
	for _, l := range []struct {
		ln         net.Listener
		path       string
		who, shown string
		status     int
	}{
		{f.data, "/readiness", "clients", "router", 200},
		{f.scrape, "/metrics", "metrics", "metrics", 200},
		{f.probe, "/readiness", "clients", "router", 200},
		{f.adminPort, "/workers", "admins", "router", 401},
	} {
		for who, cert := range show {
			status, shown := get(showing(t, servers, cert, 1), "https://"+l.ln.Addr().String()+l.path)
			want := 0
			if who == l.who {
				want = l.status
			}
			if status != want || status != 0 && shown != l.shown {
				t.Errorf("%s for %s: status %d by %q, want %d by %s", l.path, who, status, shown, want, l.shown)
			}
		}
		if status, _ := get(newClient(t), "http://"+l.ln.Addr().String()+l.path); status != 400 {
			t.Errorf("%s without TLS: status %d, want 400", l.path, status)
		}
	}
	t.Run("pdrouter workers gets through", func(t *testing.T) {
		mine, mineKey := admins.issue(t, "me")
		place := []string{"workers", "--admin-url", "https://" + f.adminPort.Addr().String(), "--admin-ca-cert-paths", servers.path, "--admin-api-key-file", writeSecret(t, "k", "me:"+adminKey)}
		if out, err := runCommand(t, append(place, "--admin-client-cert-path", mine, "--admin-client-key-path", mineKey)...); err != nil || !strings.Contains(out, "decode-1") {
			t.Errorf("workers = %s, %v", out, err)
		}
		if out, err := runCommand(t, place...); err == nil {
			t.Errorf("workers without a certificate = %s, want an error", out)
		}
	})
}

// TestCertificatesAreRenewed when files change, without a connection that breaks;
// and what cannot be used leaves those before in force.
func TestCertificatesAreRenewed(t *testing.T) {
	servers, clients, next := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "next")
	cert, key := servers.issue(t, "first")
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, engine: func(c *sim.Config) { c.DecodePerToken = 5e6 }, config: func(c *Config) {
		c.TLSCert, c.TLSKey, c.TLSClientCAs = cert, key, []string{clients.path}
	}})
	old := showing(t, servers, clients.client(t, nil), 1)
	old.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	newer := showing(t, servers, next.client(t, nil), 1)
	wants := func(what string, client *http.Client, want int, name string) {
		t.Helper()
		client.CloseIdleConnections()
		if status, shown := get(client, f.base+"/readiness"); status != want || status != 0 && shown != name {
			t.Errorf("%s: status %d by %q, want %d by %s", what, status, shown, want, name)
		}
	}
	wants("at first", old, 200, "first")
	wants("at first, a client to come", newer, 0, "")

	stream, err := old.Post(f.base+"/v1/completions", "application/json", strings.NewReader(jsonOf(t, map[string]any{"model": "sim-model", "prompt": "A story", "max_tokens": 100, "ignore_eos": true, "stream": true})))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()

	if err := os.WriteFile(cert, []byte("half of a"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.renewCertificates()
	wants("with a file that is being written", old, 200, "first")
	f.renewCertificates()
	f.renewCertificates()
	if lines := f.logs.FilterMessage("certificates not renewed: those before stay in force").All(); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()), cert) {
		t.Errorf("the log says %v, want one line that names %s", lines, cert)
	}

	servers.issueTo(t, cert, key, "second")
	f.renewCertificates()
	wants("with another certificate", old, 200, "second")

	text, err := os.ReadFile(next.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(clients.path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f.renewCertificates()
	wants("with another authority", newer, 200, "second")
	wants("with another authority, a client of the one before, who has a ticket", old, 0, "")
	if err := f.watchdog.ask(t.Context(), f.watchdog.client(f.data, true), 5*time.Second); err != nil {
		t.Errorf("no sign of life: %v", err)
	}
	if n := f.logs.FilterMessage("certificates renewed").Len(); n != 2 {
		t.Errorf("renewed %d times, want 2", n)
	}
	whole, err := io.ReadAll(stream.Body)
	if err != nil || !strings.HasSuffix(string(whole), "data: [DONE]\n\n") {
		t.Errorf("the stream ended with %v after %d bytes", err, len(whole))
	}
}

// TestTLSFaults: what is believed to be asked for is asked for, or the start
// fails.
func TestTLSFaults(t *testing.T) {
	a := newAuthority(t, "a")
	cert, key := a.issue(t, "router")
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"authorities, and no TLS", `tls-client-ca-paths: the listener "data" has no TLS`, []string{"--tls-client-ca-paths", a.path}},
		{"authorities for metrics, and TLS for clients only", `prometheus-tls-client-ca-paths: the listener "metrics" has no TLS`, []string{"--tls-cert-path", cert, "--tls-key-path", key, "--prometheus-tls-client-ca-paths", a.path}},
		{"authorities for admins, and TLS for clients only", `admin-tls-client-ca-paths: the listener "admin" has no TLS`, []string{"--tls-cert-path", cert, "--tls-key-path", key, "--admin-tls-client-ca-paths", a.path}},
		{"a listener without a certificate", `tls-listeners: "metrics" needs --tls-cert-path`, []string{"--tls-listeners", "metrics"}},
		{"a certificate without a key", `prometheus-tls-cert-path: "` + cert + `" needs --prometheus-tls-key-path`, []string{"--prometheus-tls-cert-path", cert}},
		{"a listener that is none", `tls-listeners: "all": unknown`, []string{"--tls-listeners", "all"}},
		{"authorities without a certificate in them", `tls-client-ca-paths: "` + key + `" holds no certificate`, []string{"--tls-cert-path", cert, "--tls-key-path", key, "--tls-client-ca-paths", key}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := load(t, tt.args...); !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("load = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestAdminIsNeverOpenBeyondThisHost, whoever opened the socket.
func TestAdminIsNeverOpenBeyondThisHost(t *testing.T) {
	a := newAuthority(t, "a")
	cert, key := a.issue(t, "router")
	for _, tt := range []struct {
		name, socket, address string
		edit                  func(*Config)
		fault                 string // empty: it starts
	}{
		{"clients' socket for all, admin with it, no key", socketData, "0.0.0.0:0", func(c *Config) { c.AdminOnData = true }, "admin-on-data-listener: without a key whoever reaches"},
		{"the same on loopback", socketData, "127.0.0.1:0", func(c *Config) { c.AdminOnData = true }, ""},
		{"the same with a key", socketData, "0.0.0.0:0", func(c *Config) { c.AdminOnData, c.AdminKeys = true, keys.Of(adminKey) }, ""},
		{"admin's socket without a key", socketAdmin, "127.0.0.1:0", func(*Config) {}, "a port needs --admin-api-key"},
		{"admin's socket for all, in clear", socketAdmin, "0.0.0.0:0", func(c *Config) { c.AdminKeys = keys.Of(adminKey) }, "would cross the network in clear"},
		{"the same with TLS", socketAdmin, "0.0.0.0:0", func(c *Config) {
			c.AdminKeys, c.TLSCert, c.TLSKey, c.TLSListeners = keys.Of(adminKey), cert, key, []string{socketAdmin}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", tt.address)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			cfg := localConfig()
			cfg.Workers.Specs = pairConfig().Workers.Specs
			tt.edit(&cfg)
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			d, err := newDaemon(t.Context(), cfg, sockets{tt.socket: {ln}}, zap.NewNop())
			if tt.fault != "" {
				if !strings.Contains(fmt.Sprint(err), tt.fault) || report(io.Discard, err) != exitConfig {
					t.Errorf("newDaemon = %v, want a fault of the configuration: %q", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatalf("newDaemon = %v, want none", err)
			}
			for _, ln := range d.listeners() {
				_ = ln.Close()
			}
		})
	}
}
