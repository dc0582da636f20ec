package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"pdrouter/sim"
	"pdrouter/workers"
)

// chatBody returns a chat request and the text that it is answered with.
func chatBody(t *testing.T, stream bool) (body string, want []string) {
	t.Helper()
	body = jsonOf(t, map[string]any{
		"model": "sim-model", "max_tokens": 12, "stream": stream,
		"messages": []any{map[string]any{"role": "user", "content": "Which river runs through the old town?"}},
	})
	return body, expectAll(t, "/v1/chat/completions", body)
}

// wantChat asks for a chat answer, streamed and not, and wants the right one.
func wantChat(t *testing.T, client *http.Client, base string, major int) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		body, want := chatBody(t, stream)
		resp, err := client.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != major {
			t.Fatalf("answer = %s %d %s, %v; want 200 over HTTP/%d", resp.Proto, resp.StatusCode, answer, err, major)
		}
		var got []string
		if stream {
			h, err := parseStream("/v1/chat/completions", string(answer))
			if err != nil || !h.done {
				t.Errorf("stream = %s, %v, want one that ends with [DONE]", answer, err)
			}
			got = h.inOrder(1)
		} else if got, err = parseAnswer("/v1/chat/completions", string(answer)); err != nil {
			t.Error(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("stream %t: answer = %q, want %q", stream, got, want)
		}
	}
}

// Clients are spoken to over TLS, in HTTP/1.1 and in HTTP/2 (which only TLS
// negotiates).
func TestListenerSpeaksTLS(t *testing.T) {
	cert, key := newCert(t)
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.TLSCert, c.TLSKey = cert, key }})
	for major := 1; major <= 2; major++ {
		t.Run(fmt.Sprint("HTTP/", major), func(t *testing.T) { wantChat(t, newTLSClient(t, cert, major), f.base, major) })
	}
	t.Run("a client without TLS is told so", func(t *testing.T) {
		status, answer, err := request(t, "GET", strings.Replace(f.base, "https", "http", 1)+"/liveness", "", "")
		if status != 400 || !strings.Contains(answer, "HTTPS") {
			t.Errorf("answer = %d %q, %v, want 400", status, answer, err)
		}
	})
	t.Run("a client that does not know the authority leaves", func(t *testing.T) {
		if _, _, err := request(t, "GET", f.base+"/liveness", "", ""); !errors.As(err, new(*tls.CertificateVerificationError)) {
			t.Errorf("error = %v, want one of the certificate", err)
		}
	})
}

// newTLSClient returns a client that trusts a certificate and speaks that major
// version of HTTP.
func newTLSClient(t *testing.T, cert string, major int) *http.Client {
	t.Helper()
	client := newClient(t)
	transport := client.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2 = major == 2
	transport.TLSClientConfig = &tls.Config{RootCAs: trusting(t, cert), ServerName: "localhost"}
	return client
}

// trusting returns a pool with the certificate of a file.
func trusting(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s holds no certificate", path)
	}
	return pool
}

// overTLS returns the URL of a proxy that speaks TLS in front of an engine, and
// the path of the certificate that it shows.
func overTLS(t *testing.T, e *sim.Engine) (base, cert string) {
	t.Helper()
	to, err := url.Parse(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	quiet := log.New(io.Discard, "", 0)
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1, Transport: transport, ErrorLog: quiet,
	})
	proxy.Config.ErrorLog = quiet
	proxy.StartTLS()
	t.Cleanup(func() {
		proxy.Close()
		transport.CloseIdleConnections()
	})
	cert = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	if err := os.WriteFile(cert, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return proxy.URL, cert
}

// Workers with an https URL are trusted by --ca-cert-paths, and by nothing less.
func TestWorkersOverTLS(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			var authority string
			via := func(e *sim.Engine) (base string) {
				base, authority = overTLS(t, e) // httptest has one for all
				return base
			}
			f := newFleet(t, fleetPlan{dialect: dialect, via: via, config: func(c *Config) { c.CACertPaths = []string{authority} }})
			wantChat(t, newClient(t), f.base, 1)
		})
	}
	t.Run("a worker of another authority stays unready, and the reason says why", func(t *testing.T) {
		other, _ := newCert(t)
		via := func(e *sim.Engine) string {
			base, _ := overTLS(t, e)
			return base
		}
		f := newFleet(t, fleetPlan{dialect: sim.SGLang, via: via, config: func(c *Config) { c.CACertPaths = []string{other} }})
		wantUnready(t, f, "certificate signed by unknown authority")
	})
}

// wantUnready wants that no worker is ready, that the log says why, and that
// clients are told no more than that.
func wantUnready(t *testing.T, f *fleet, why string) {
	t.Helper()
	for _, s := range f.registry.Statuses() {
		if s.State != workers.Unready || !strings.Contains(s.Reason, why) {
			t.Errorf("%s is %v: %q, want unready: %q", s.Worker.ID, s.State, s.Reason, why)
		}
	}
	lines := f.logs.FilterMessage("worker not ready").All()
	if len(lines) != 4 {
		t.Errorf("%d lines of the log tell of workers, want one for each", len(lines))
	}
	for _, line := range lines {
		if reason := fmt.Sprint(line.ContextMap()["reason"]); !strings.Contains(reason, why) {
			t.Errorf("the log says %q, want %q", reason, why)
		}
	}
	body, _ := chatBody(t, false)
	status, answer := post(t, newClient(t), f.base+"/v1/chat/completions", body)
	if code, err := parseEnvelope(answer); status != 503 || code != "no_available_workers" || err != nil || strings.Contains(answer, why) {
		t.Errorf("answer = %d %s, want 503 no_available_workers and no reason", status, answer)
	}
	if status, answer, _ := request(t, "GET", f.base+"/readiness", "", ""); status != 503 {
		t.Errorf("/readiness = %d %s, want 503", status, answer)
	}
}

// Engines that ask for a key get --worker-api-key, on probes and on legs.
func TestWorkerKeys(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		locked := func(c *sim.Config) { c.APIKey = "engine-secret" }
		t.Run(dialect+" with the right key", func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: dialect, engine: locked, config: func(c *Config) { c.Workers.APIKey = "engine-secret" }})
			wantChat(t, newClient(t), f.base, 1)
		})
		t.Run(dialect+" with a wrong key", func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: dialect, engine: locked, config: func(c *Config) { c.Workers.APIKey = "wrong-secret" }})
			wantUnready(t, f, "--worker-api-key")
			for _, line := range f.logs.All() {
				if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "wrong-secret") {
					t.Errorf("the log tells the key: %s", text)
				}
			}
		})
	}
}

// Any of several keys lets a client in, and no engine gets to see it.
func TestClientKeys(t *testing.T) {
	locked := func(c *sim.Config) { c.APIKey = "engine-secret" }
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, engine: locked, config: func(c *Config) {
		c.Router.APIKeys, c.Workers.APIKey = []string{"one", "two"}, "engine-secret"
	}})
	body, _ := chatBody(t, false)
	for _, tt := range []struct {
		key    string
		status int
	}{{"one", 200}, {"two", 200}, {"three", 401}, {"on", 401}, {"engine-secret", 401}, {"", 401}} {
		status, answer, err := request(t, "POST", f.base+"/v1/chat/completions", tt.key, body)
		if err != nil || status != tt.status {
			t.Errorf("with key %q: %d %s, %v, want %d", tt.key, status, answer, err, tt.status)
		}
		if status == 401 {
			if code, err := parseEnvelope(answer); code != "invalid_api_key" || err != nil {
				t.Errorf("with key %q: %s, %v, want invalid_api_key", tt.key, answer, err)
			}
		}
	}
	for _, path := range []string{"/liveness", "/readiness", "/health", "/v1/models"} {
		if status, answer, _ := request(t, "GET", f.base+path, "", ""); status != 200 {
			t.Errorf("%s without a key = %d %s, want 200", path, status, answer)
		}
	}
}

// --health-check-port has the probes and nothing else, in the plain whatever
// the data listener speaks.
func TestHealthCheckPortServesProbesOnly(t *testing.T) {
	cert, key := newCert(t)
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) {
		c.HealthCheckPort, c.TLSCert, c.TLSKey, c.Router.APIKeys = freePort(t), cert, key, []string{"one"}
	}})
	base := "http://" + f.probe.Addr().String()
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/liveness", 200},
		{"GET", "/readiness", 200},
		{"GET", "/health", 200},
		{"HEAD", "/readiness", 200},
		{"POST", "/readiness", 405},
		{"GET", "/v1/models", 404},
		{"POST", "/v1/chat/completions", 404},
		{"GET", "/metrics", 404},
		{"GET", "/", 404},
		{"GET", "/readiness/", 404},
		{"GET", "//liveness", 404},
	} {
		if status, answer, err := request(t, tt.method, base+tt.path, "one", ""); status != tt.status || err != nil {
			t.Errorf("%s %s = %d %s, %v, want %d", tt.method, tt.path, status, answer, err, tt.status)
		}
	}
	t.Run("and the data listener has no metrics", func(t *testing.T) {
		status, _, err := request(t, "GET", "http://"+f.scrape.Addr().String()+"/v1/models", "one", "")
		if status != 404 || err != nil {
			t.Errorf("/v1/models of the metrics listener = %d, %v, want 404", status, err)
		}
	})
}

// A port that somebody has is a fault of the configuration, said by its flag;
// the other listeners are closed again.
func TestTakenPortsAreFaults(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, tt := range []struct {
		flag string
		set  func(c *Config)
	}{
		{"port", func(c *Config) { c.Port = port }},
		{"prometheus-port", func(c *Config) { c.MetricsPort = port }},
		{"health-check-port", func(c *Config) { c.HealthCheckPort = port }},
	} {
		t.Run("--"+tt.flag, func(t *testing.T) {
			cfg := localConfig()
			cfg.Port, cfg.MetricsPort = freePort(t), freePort(t)
			cfg.Workers.Specs = pairConfig().Workers.Specs
			tt.set(&cfg)
			_, err := newDaemon(t.Context(), cfg, nil, zap.NewNop())
			if fault := (configFault{}); !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s %d: ", tt.flag, port)) {
				t.Errorf("newDaemon = %v, want a fault of the configuration that begins with %s %d", err, tt.flag, port)
			}
			for _, p := range []int{cfg.Port, cfg.MetricsPort} {
				if p == port {
					continue
				}
				ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", p))
				if err != nil {
					t.Errorf("a listener was left open: %v", err)
					continue
				}
				ln.Close()
			}
		})
	}
	t.Run("exit status 78", func(t *testing.T) {
		p := exec.CommandContext(context.Background(), "pdrouter", "serve", "--host", "127.0.0.1", "--port", fmt.Sprint(port), "--prometheus-port", "0", "--admin-socket", "none",
			"--prefill", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:2")
		p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		out, _ := p.CombinedOutput()
		if code := p.ProcessState.ExitCode(); code != exitConfig || !strings.Contains(string(out), fmt.Sprint("pdrouter: port ", port)) {
			t.Errorf("serve ended with %d and %s, want %d and the flag at fault", code, out, exitConfig)
		}
	})
}
