package workers

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"pdrouter/exchange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pages is an engine that serves fixed pages; what is not there is a 404.
type pages map[string]string

func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page, ok := p[r.URL.Path]
	switch {
	case !ok:
		http.NotFound(w, r)
	case page == "401":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		io.WriteString(w, page)
	}
}

const (
	models       = `{"object":"list","data":[{"id":"m"}]}`
	sglangDecode = `{"disaggregation_mode":"decode","disaggregation_bootstrap_port":8998,"host":"10.0.0.7","page_size":64,"kv_cache_dtype":"auto","version":"0.5.23"}`
)

func sglangPrefill(host string) string {
	return strings.NewReplacer(`"decode"`, `"prefill"`, "10.0.0.7", host).Replace(sglangDecode)
}

// serve starts an engine and returns its URL.
func serve(t *testing.T, p http.Handler) string {
	t.Helper()
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// look makes a registry of the specs, looks at them once and returns the
// status of the first.
func look(t *testing.T, dialect string, specs ...Spec) Status {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dialect, cfg.Specs = dialect, specs
	r, err := NewRegistry(cfg, exchange.DefaultConfig(), first{}, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Look(t.Context())
	return r.Statuses()[0]
}

// first is a Chooser that takes whatever comes first.
type first struct{}

func (first) Choose(Need, []Pool) Choice { return Choice{} }

func TestIdentify(t *testing.T) {
	tests := []struct {
		name    string
		dialect string
		role    Role
		pages   pages
		want    string // the dialect, or a part of the reason
	}{
		{"SGLang tells its role and dialect", "auto", Decode, pages{"/server_info": sglangDecode, "/v1/models": models}, "sglang"},
		{"SGLang before 0.5 has another path", "auto", Decode, pages{"/get_server_info": sglangDecode, "/v1/models": models}, "sglang"},
		{"vLLM with NIXL", "auto", Decode, pages{"/version": `{"version":"0.32.0"}`, "/metrics": "vllm:nixl_num_failed_transfers_total 0\n", "/v1/models": models}, "vllm-nixl"},
		{"vLLM without a connector", "auto", Decode, pages{"/version": `{"version":"0.32.0"}`, "/metrics": "vllm:num_requests_running 0\n", "/v1/models": models}, "runs without NixlConnector"},
		{"vLLM without metrics", "auto", Decode, pages{"/version": `{"version":"0.32.0"}`, "/metrics": "process_open_fds 34.0\n", "/v1/models": models}, "start it without --disable-log-stats"},
		{"an SGLang of the other role", "auto", Prefill, pages{"/server_info": sglangDecode, "/v1/models": models}, "configured for prefill, but the engine runs with --disaggregation-mode decode"},
		{"an SGLang without disaggregation", "auto", Decode, pages{"/server_info": `{"disaggregation_mode":"null"}`}, "--disaggregation-mode null"},
		{"an engine of another dialect than configured", "vllm-nixl", Decode, pages{"/server_info": sglangDecode, "/v1/models": models}, "configured with --dialect vllm-nixl, but the engine speaks sglang"},
		{"an engine that nobody knows", "auto", Decode, pages{"/v1/models": models}, "not recognised"},
		{"an engine that nobody knows, its dialect configured", "sglang", Decode, pages{"/v1/models": models}, "sglang"},
		{"an engine without a model", "auto", Decode, pages{"/server_info": sglangDecode, "/v1/models": `{"data":[]}`}, "serves no model"},
		{"an engine that asks for a key (BUG-091)", "auto", Decode, pages{"/server_info": "401"}, "--worker-api-key"},
		{"an engine that talks nonsense", "auto", Decode, pages{"/server_info": "<html>"}, "/server_info: not the JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := look(t, tt.dialect, Spec{Role: tt.role, URL: serve(t, tt.pages)})

			if s.State == Ready && s.Facts.Dialect != tt.want || s.State != Ready && !strings.Contains(s.Reason, tt.want) {
				t.Errorf("worker is %s, dialect %q, reason %q, want %q", s.State, s.Facts.Dialect, s.Reason, tt.want)
			}
		})
	}
}

// TestIdentifyRealPages feeds what real engines sent.
func TestIdentifyRealPages(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	sglang := pages{"/server_info": read("sglang_server_info.json"), "/v1/models": read("sglang_models.json")}
	want := Facts{Dialect: "sglang", Version: "0.5.23", Models: []string{"smollm2"}, BootstrapHost: "127.0.0.1", BootstrapPort: 8998, PageSize: 1, KVDtype: "auto"}
	if s := look(t, "auto", Spec{Role: Prefill, URL: serve(t, sglang)}); s.State != Ready || !reflect.DeepEqual(s.Facts, want) {
		t.Errorf("SGLang prefill is %s (%s) with %+v, want %+v", s.State, s.Reason, s.Facts, want)
	}
	vllm := pages{"/version": read("vllm_version.json"), "/metrics": read("vllm_metrics.txt"), "/v1/models": read("vllm_models.json")}
	want = Facts{Dialect: "vllm-nixl", Version: "0.32.0", Models: []string{"smollm2"}}
	if s := look(t, "auto", Spec{Role: Prefill, URL: serve(t, vllm)}); s.State != Ready || !reflect.DeepEqual(s.Facts, want) {
		t.Errorf("vLLM prefill is %s (%s) with %+v, want %+v", s.State, s.Reason, s.Facts, want)
	}
}

// TestBootstrapAddress is about BUG-011 and BUG-013: what decode engines are
// told of a prefill engine's bootstrap server.
func TestBootstrapAddress(t *testing.T) {
	tests := []struct {
		name         string
		spec         Spec // Role and URL are filled in
		host         string
		told         string // host in /server_info
		decode       string
		wantHost     string
		wantPort     int
		wantUnready  string
		plainUnknown bool // the engine does not say what it is
	}{
		{name: "the configured host goes first", spec: Spec{BootstrapHost: "10.1.1.1"}, told: "10.0.0.7", wantHost: "10.1.1.1", wantPort: 8998},
		{name: "then the host of the URL", told: "10.0.0.7", wantHost: "127.0.0.1", wantPort: 8998},
		{name: "a wildcard in the engine's words does not matter then", told: "0.0.0.0", wantHost: "127.0.0.1", wantPort: 8998},
		{name: "the configured port goes first", spec: Spec{BootstrapPort: 9000}, told: "0.0.0.0", wantHost: "127.0.0.1", wantPort: 9000},
		{name: "none leaves the port to the engine", spec: Spec{BootstrapPort: BootstrapNone}, told: "0.0.0.0", wantHost: "127.0.0.1", wantPort: 0},
		{name: "an engine that tells nothing", plainUnknown: true, spec: Spec{BootstrapPort: 9000}, wantHost: "127.0.0.1", wantPort: 9000},
		{name: "a loopback that a decode engine elsewhere cannot reach", told: "0.0.0.0", decode: "http://10.9.9.9:1", wantUnready: "10.9.9.9"},
		{name: "unless a host is configured", spec: Spec{BootstrapHost: "10.1.1.1"}, told: "0.0.0.0", decode: "http://10.9.9.9:1", wantHost: "10.1.1.1", wantPort: 8998},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, dialect := pages{"/server_info": sglangPrefill(tt.told), "/v1/models": models}, "auto"
			if tt.plainUnknown {
				p, dialect = pages{"/v1/models": models}, "sglang"
			}
			spec := tt.spec
			spec.URL = serve(t, p)
			if tt.decode == "" {
				tt.decode = "http://127.0.0.1:1"
			}
			r := newRegistry(t, dialect, spec, Spec{Role: Decode, URL: tt.decode})

			facts, err := r.identify(t.Context(), r.all[0])

			if tt.wantUnready != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantUnready) {
					t.Errorf("identify = %v, want an error that names %s", err, tt.wantUnready)
				}
				return
			}
			if err != nil || facts.BootstrapHost != tt.wantHost || facts.BootstrapPort != tt.wantPort {
				t.Errorf("bootstrap = %+v (%v), want %s:%d", facts, err, tt.wantHost, tt.wantPort)
			}
		})
	}
}

// TestWildcardURL is the rest of BUG-011: a URL with a wildcard never becomes
// the address that decode dials.
func TestWildcardURL(t *testing.T) {
	for _, tt := range []struct{ url, told, wantHost string }{
		{"http://0.0.0.0:30000", "10.0.0.7", "10.0.0.7"},
		{"http://0.0.0.0:30000", "0.0.0.0", ""},
		{"http://[::]:30000", "::", ""},
		{"http://0.0.0.0:30000", "", ""},
	} {
		r := newRegistry(t, "auto", Spec{URL: tt.url}, Spec{Role: Decode, URL: "http://10.0.0.8:1"})
		facts := Facts{BootstrapHost: tt.told}

		err := r.settleBootstrap(r.all[0], &facts)

		if tt.wantHost == "" && err == nil || tt.wantHost != "" && facts.BootstrapHost != tt.wantHost {
			t.Errorf("%s that says %q: host %q (%v), want %q", tt.url, tt.told, facts.BootstrapHost, err, tt.wantHost)
		}
	}
}

func newRegistry(t *testing.T, dialect string, specs ...Spec) *Registry {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dialect, cfg.Specs = dialect, specs
	r, err := NewRegistry(cfg, exchange.DefaultConfig(), first{}, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestLateWorker is about an engine that is not there at first, and about the
// reason being told once and not at every look.
func TestLateWorker(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	var events atomic.Pointer[[]Event]
	events.Store(&[]Event{})
	cfg := DefaultConfig()
	cfg.Specs = []Spec{{Role: Decode, URL: "http://" + addr}}
	r, err := NewRegistry(cfg, exchange.DefaultConfig(), first{}, func(e Event) {
		list := append(*events.Load(), e)
		events.Store(&list)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	r.Look(t.Context())
	r.Look(t.Context())
	if got := *events.Load(); len(got) != 1 || got[0].Reason != "connection refused" {
		t.Fatalf("events after two looks = %+v, want one: connection refused", got)
	}
	if ln, err = net.Listen("tcp", addr); err != nil {
		t.Skipf("port %s was taken meanwhile: %v", addr, err)
	}
	srv := &httptest.Server{Listener: ln, Config: &http.Server{Handler: pages{"/server_info": sglangDecode, "/v1/models": models}}}
	srv.Start()
	defer srv.Close()
	r.Look(t.Context())

	got := *events.Load()
	if len(got) != 2 || got[1].To != Ready || got[1].From != Unready {
		t.Errorf("events after the engine came = %+v, want unready to ready", got)
	}
}
