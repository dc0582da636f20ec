package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pdrouter/workers"
)

// pairConfig returns a configuration without fault.
func pairConfig() Config {
	cfg := DefaultConfig()
	cfg.Workers.Specs = []workers.Spec{
		{Role: workers.Prefill, URL: "http://127.0.0.1:21000", BootstrapPort: 21200},
		{Role: workers.Decode, URL: "http://127.0.0.1:21100"},
	}
	return cfg
}

func TestDefaultsWithAPairAreValid(t *testing.T) {
	if err := pairConfig().Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
}

func TestValidate(t *testing.T) {
	prefill := func(c *Config, url, host string) {
		c.Workers.Specs[0] = workers.Spec{Role: workers.Prefill, URL: url, BootstrapHost: host}
	}
	tests := []struct {
		name string
		edit func(c *Config)
		want string // empty: no fault
	}{
		{"no workers", func(c *Config) { c.Workers.Specs = nil }, "no workers: give --prefill URL [PORT] and --decode URL"},
		{"no prefill", func(c *Config) { c.Workers.Specs = c.Workers.Specs[1:] }, "no prefill worker: give --prefill"},
		{"no decode", func(c *Config) { c.Workers.Specs = c.Workers.Specs[:1] }, "no decode worker: give --decode"},
		{"a port above the last", func(c *Config) { c.Port = 65536 }, "port: 65536 is not between 0 and 65535"},
		{"a negative port", func(c *Config) { c.MetricsPort = -1 }, "prometheus-port: -1 is not"},
		{"metrics on the port of clients", func(c *Config) { c.MetricsPort = c.Port }, "prometheus-port: 30001 is taken by port already"},
		{"the same port on two addresses", func(c *Config) { c.Host, c.MetricsHost, c.MetricsPort = "127.0.0.1", "127.0.0.2", c.Port }, ""},
		{"the same port on an address and on all", func(c *Config) { c.Host, c.MetricsHost, c.MetricsPort = "127.0.0.1", "::", c.Port }, "prometheus-port: 30001 is taken by port already"},
		{"any free port, three times", func(c *Config) { c.Port, c.MetricsPort = 0, 0 }, ""},
		{"probes on the port of metrics", func(c *Config) { c.HealthCheckPort = 29001 }, "health-check-port: 29001 is taken by prometheus-port already"},
		{"a host with a port", func(c *Config) { c.Host = "127.0.0.1:80" }, `host: "127.0.0.1:80" is neither an address, a host name nor unix:/path`},
		{"an empty host", func(c *Config) { c.MetricsHost = "" }, `prometheus-host: ""`},
		{"a certificate without key", func(c *Config) { c.TLSCert = "/c.pem" }, `tls-cert-path: "/c.pem" needs --tls-key-path beside it`},
		{"a key without certificate", func(c *Config) { c.ClientKey = "/k.pem" }, `client-key-path: "/k.pem" needs --client-cert-path beside it`},
		{"a certificate that is not there", func(c *Config) { c.TLSCert, c.TLSKey = "/nowhere/c.pem", "/nowhere/k.pem" }, "tls-key-path: open /nowhere/k.pem"},
		{"an authority that is not there", func(c *Config) { c.CACertPaths = []string{"/nowhere/ca.pem"} }, "ca-cert-paths: open /nowhere/ca.pem"},
		{"a scheme of smg's that is not ours", func(c *Config) { prefill(c, "grpc://10.0.0.1:1", "") }, `prefill "grpc://10.0.0.1:1": the scheme must be`},
		{"a port of a worker out of range", func(c *Config) { c.Workers.Specs[1].URL = "http://127.0.0.1:99999" }, `decode "http://127.0.0.1:99999": port 99999`},
		{"a wildcard for a prefill worker (BUG-011)", func(c *Config) { prefill(c, "http://0.0.0.0:30000", "") }, `prefill "http://0.0.0.0:30000": its host is a wildcard`},
		{"an IPv6 wildcard for a prefill worker", func(c *Config) { prefill(c, "http://[::]:30000", "") }, `prefill "http://[::]:30000": its host is a wildcard`},
		{"a wildcard with a bootstrap host", func(c *Config) { prefill(c, "http://0.0.0.0:30000", "10.0.0.1") }, ""},
		{"a wildcard as bootstrap host", func(c *Config) { prefill(c, "http://10.0.0.1:30000", "0.0.0.0") }, `bootstrap-host "0.0.0.0" is a wildcard`},
		{"a loopback prefill with a decode elsewhere", func(c *Config) { c.Workers.Specs[1].URL = "http://10.0.0.2:1" }, `prefill "http://127.0.0.1:21000": decode "http://10.0.0.2:1" cannot reach`},
		{"the same with a bootstrap host", func(c *Config) {
			prefill(c, "http://127.0.0.1:21000", "10.0.0.1")
			c.Workers.Specs[1].URL = "http://10.0.0.2:1"
		}, ""},
		{"the same for vLLM, whose engines tell each other", func(c *Config) {
			c.Workers.Dialect, c.Workers.Specs[1].URL = "vllm-nixl", "http://10.0.0.2:1"
		}, ""},
		{"a bootstrap host with a port", func(c *Config) { prefill(c, "http://10.0.0.1:1", "http://10.0.0.1") }, `bootstrap-host "http://10.0.0.1"`},
		{"one worker twice", func(c *Config) { c.Workers.Specs = append(c.Workers.Specs, c.Workers.Specs[1]) }, "decode http://127.0.0.1:21100: configured twice"},
		{"an index below nothing", func(c *Config) { c.Choosing.MaxBlocks = -1 }, "max-index-blocks: -1 is below 0"},
		{"a bound below the average load", func(c *Config) { c.Choosing.LoadFactor = 0.9 }, "prefix-hash-load-factor: 0.9 is below 1"},
		{"an empty key", func(c *Config) { c.Router.APIKeys = []string{""} }, "api-key: must not be empty"},
		{"a header that is none", func(c *Config) { c.Router.RequestIDHeaders = []string{"a,b"} }, `request-id-headers: "a,b" is not the name of a header`},
		{"a routing key that is the router's", func(c *Config) { c.Router.RoutingKeyHeaders = []string{"Authorization"} }, `routing-key-headers: "Authorization"`},
		{"an origin with a path", func(c *Config) { c.Router.CORSOrigins = []string{"http://a/b"} }, `cors-allowed-origins: "http://a/b"`},
		{"any origin", func(c *Config) { c.Router.CORSOrigins = []string{"*"} }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := pairConfig()
			tt.edit(&cfg)
			err := cfg.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Validate() = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Port, cfg.TLSCert, cfg.Router.MaxBodyBytes, cfg.Exchange.ConnectTimeout, cfg.Metrics.DurationBuckets = -1, "/c.pem", 0, 0, nil
	err := cfg.Validate()
	for _, want := range []string{"no workers", "port: -1", "tls-cert-path", "max-payload-size", "connect-timeout-secs", "prometheus-duration-buckets"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, does not name %s", err, want)
		}
	}
}

// TestCheckRoundTrip feeds what check prints back: the same Config comes out,
// once the keys are put where the stars are.
func TestCheckRoundTrip(t *testing.T) {
	tests := []struct{ name, args string }{
		{"the least", "--prefill http://127.0.0.1:1 --decode http://127.0.0.1:2"},
		{"workers of every form", "--decode unix:/run/d0.sock --prefill http://10.0.0.1:1 8998 --prefill http://10.0.0.2:1 none --prefill https://10.0.0.3 --decode http://10.0.0.4:5"},
		{"every kind of value", "--prefill http://127.0.0.1:1 --decode http://127.0.0.1:2 --log-json --log-level debug --first-byte-timeout-secs 0.25 " +
			"--request-id-headers a b --prometheus-duration-buckets 0.5 1 2.25 --cors-allowed-origins * --max-payload-size 2147483647 --max-buffered-bytes 9007199254740993 --host ::1"},
		{"a policy for each leg, with what they read", "--prefill http://127.0.0.1:1 --decode http://127.0.0.1:2 --prefill-policy cache_aware --decode-policy bucket --prefill-hold off --max-index-blocks 1000 --spill-abs-threshold 3 --assignment-mode min_load"},
		{"a hold with a unit", "--prefill http://127.0.0.1:1 --decode http://127.0.0.1:2 --policy cache_aware --prefill-hold 1500ms"},
		{"keys", "--prefill http://127.0.0.1:1 --decode http://127.0.0.1:2 --api-key secret --api-key secret --worker-api-key secret"},
		{"KV events", "--prefill http://127.0.0.1:1 --decode http://127.0.0.1:2 --kv-events off --kv-events http://127.0.0.1:1=tcp://127.0.0.1:5557,replay=tcp://127.0.0.1:5657,topic=kv,ranks=2"},
		{"smg's own words", "--prefill http://127.0.0.1:1 --decode http://10.0.0.2:2 --pd-disaggregation --backend vllm --policy cache_aware --prefill-policy bucket --tenant-api-key t:secret --cb-failure-threshold 5 --selector a=1 b=2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, printed := check(t, strings.Fields(tt.args)...)
			if strings.Contains(printed, "secret") {
				t.Fatalf("check prints a key:\n%s", printed)
			}
			path := filepath.Join(t.TempDir(), "pdrouter.yaml")
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(printed, `"***"`, "secret")), 0o600); err != nil {
				t.Fatal(err)
			}
			second, again := check(t, "--config", path)
			if !reflect.DeepEqual(first, second) {
				t.Errorf("%s came back from\n%s\nas\n%+v, want\n%+v", tt.args, printed, second, first)
			}
			if printed != again {
				t.Errorf("printed again it is\n%s\nwant\n%s", again, printed)
			}
		})
	}
}

// check runs check on args, which must have no fault.
func check(t *testing.T, args ...string) (cfg Config, printed string) {
	t.Helper()
	flags, in := serveFlags()
	args, err := normalise(flags, args)
	if err != nil {
		t.Fatalf("normalise: %v", err)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatalf("parse: %v", err)
	}
	cfg, err = in.load()
	if err != nil {
		t.Fatalf("load %q: %v", args, err)
	}
	var out bytes.Buffer
	if err := checkYAML(&out, in, cfg); err != nil {
		t.Fatalf("print: %v", err)
	}
	return cfg, out.String()
}
