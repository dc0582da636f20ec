package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pdrouter/workers"
)

// loadFile loads text as the file of a command line with args.
func loadFile(t *testing.T, text string, args ...string) (*intake, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags, in := serveFlags()
	args, err := normalise(flags, append(args, "--config", path))
	if err != nil {
		t.Fatal(err)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	_, err = in.load()
	return in, err
}

const pairYAML = "prefill: http://127.0.0.1:1\ndecode: http://127.0.0.1:2\n"

func TestFileFaultsNameTheirLine(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"an unknown key", "prot: 1", `f.yaml:1:1: unknown key "prot"; did you mean port?`},
		{"a key twice", "port: 1\nhost: ::1\nport: 2", "f.yaml:3:1: port: said already in line 1"},
		{"the file in the file", "config: x", `f.yaml:1:1: unknown key "config"`},
		{"a word for a number", "\nport: many", `f.yaml:2:7: port: "many": not a whole number`},
		{"a word for a switch", "log-json: yes", `f.yaml:1:11: log-json: "yes": neither true nor false`},
		{"a number with a unit", "request-timeout-secs: 3s", `f.yaml:1:23: request-timeout-secs: "3s": not a number of seconds`},
		{"no value", "port:", "f.yaml:1:7: port: has no value"},
		{"null", "port: null", "f.yaml:1:7: port: has no value"},
		{"a list for one value", "port: [1, 2]", "f.yaml:1:7: port: takes one value, not a list"},
		{"a map for one value", "port: {a: 1}", "f.yaml:1:7: port: takes no map"},
		{"a list in a list", "decode: [[a]]", "f.yaml:1:10: decode: takes a plain value"},
		{"an alias", "port: *p", "f.yaml:1:7: port: takes a plain value"},
		{"stars for a key", "worker-api-key: '***'", "f.yaml:1:17: worker-api-key: *** is what check prints"},
		{"a key with a blank is not printed", "api-key: my secret", "f.yaml:1:10: api-key: a key is made of"},
		{"a later setting of the wrong type", "cb-failure-threshold: x", `f.yaml:1:23: cb-failure-threshold: "x": not a whole number`},
		{"a list at the top", "- port", "f.yaml:1:1: not a map of settings"},
		{"a word at the top", "port", "f.yaml:1:1: not a map of settings"},
		{"two documents", "port: 1\n---\nport: 2", "f.yaml:2:1: a second document"},
		{"a tab", "prefill:\n\t- a", "f.yaml:2:1: "},
		{"no YAML", "a: b: c", "f.yaml:1:4: "},
		{"a worker with an unknown key", "prefill:\n  - url: http://a\n    bootstrap-prot: 1", `f.yaml:3:5: unknown key "bootstrap-prot"; did you mean bootstrap-port?`},
		{"a worker with a key twice", "prefill:\n  - url: http://a\n    url: http://b", "f.yaml:3:5: url: said already in line 2"},
		{"a worker without url", "prefill:\n  - bootstrap-port: 1", "prefill: a worker without url"},
		{"a worker with a bad port", "prefill:\n  - {url: http://a, bootstrap-port: 70000}", `prefill: bootstrap-port: bootstrap port "70000" is not between`},
		{"a decode worker with a bootstrap port", "decode:\n  - {url: http://a, bootstrap-port: 1}", `unknown key "bootstrap-port"`},
		{"a decode worker with a port behind it", "decode: http://a 8998", `decode: "http://a 8998": "8998" after the URL`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadFile(t, tt.yaml)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("load %q fails with %v, want %q", tt.yaml, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "my secret") {
				t.Errorf("load prints a key: %v", err)
			}
		})
	}
}

func TestWorkersInTheFile(t *testing.T) {
	in, err := loadFile(t, `
decode:
  - http://10.0.0.9:1
  - url: http://10.0.0.9:2
    api-key: d2
prefill:
  - http://10.0.0.1:1
  - http://10.0.0.1:2 8998
  - http://10.0.0.1:3,none
  - url: http://10.0.0.1:4
    bootstrap-port: none
    bootstrap-host: 10.9.9.9
    api-key: 007
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []workers.Spec{
		{Role: workers.Prefill, URL: "http://10.0.0.1:1"},
		{Role: workers.Prefill, URL: "http://10.0.0.1:2", BootstrapPort: 8998},
		{Role: workers.Prefill, URL: "http://10.0.0.1:3", BootstrapPort: workers.BootstrapNone},
		{Role: workers.Prefill, URL: "http://10.0.0.1:4", BootstrapPort: workers.BootstrapNone, BootstrapHost: "10.9.9.9", APIKey: "007"},
		{Role: workers.Decode, URL: "http://10.0.0.9:1"},
		{Role: workers.Decode, URL: "http://10.0.0.9:2", APIKey: "d2"},
	}
	if got := in.cfg.Workers.Specs; !slices.Equal(got, want) {
		t.Errorf("workers are\n%+v, want\n%+v", got, want)
	}
}

func TestFlagsOverrideTheFile(t *testing.T) {
	in, err := loadFile(t, pairYAML+"port: 1\nlog-level: debug\nrequest-id-headers: [a, b]\nprefill-policy: bucket\n",
		"--port", "2", "--prefill", "http://127.0.0.1:9", "--request-id-headers", "c")
	if err != nil {
		t.Fatal(err)
	}
	c := in.cfg
	if c.Port != 2 || c.LogLevel != "debug" || !slices.Equal(c.Router.RequestIDHeaders, []string{"c"}) {
		t.Errorf("port, level, headers are %d, %s, %q; want 2, debug, [c]", c.Port, c.LogLevel, c.Router.RequestIDHeaders)
	}
	if got := c.Workers.Specs; len(got) != 2 || got[0].URL != "http://127.0.0.1:9" || got[1].URL != "http://127.0.0.1:2" {
		t.Errorf("workers are %+v, want prefill of the flag and decode of the file", got)
	}
}

func TestAnEmptyFileIsFine(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# nothing\n", "---\n", "null\n"} {
		if _, err := loadFile(t, text, "--prefill", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:2"); err != nil {
			t.Errorf("load %q = %v, want nil", text, err)
		}
	}
}

func TestAnEmptyListInTheFileIsEmpty(t *testing.T) {
	in, err := loadFile(t, pairYAML+"request-id-headers: []\n")
	if err != nil || len(in.cfg.Router.RequestIDHeaders) != 0 {
		t.Errorf("headers are %q, %v; want none", in.cfg.Router.RequestIDHeaders, err)
	}
}

func TestBackendIsAHintForTheDialect(t *testing.T) {
	tests := []struct {
		name, yaml string
		args       []string
		want       string
	}{
		{"sglang", "", []string{"--backend", "sglang"}, "sglang"},
		{"vllm", "", []string{"--runtime", "vllm"}, "vllm-nixl"},
		{"a dialect is worth more", "", []string{"--backend", "vllm", "--dialect", "auto"}, "auto"},
		{"also one in the file", "dialect: sglang\n", []string{"--backend", "vllm"}, "sglang"},
		{"none", "", nil, "auto"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, err := loadFile(t, pairYAML+tt.yaml, tt.args...)
			if err != nil || in.cfg.Workers.Dialect != tt.want {
				t.Errorf("dialect is %s, %v; want %s", in.cfg.Workers.Dialect, err, tt.want)
			}
		})
	}
}

// FuzzFile: no file panics, and what is read of workers is of the two roles.
func FuzzFile(f *testing.F) {
	f.Add(pairYAML)
	f.Add("prefill:\n  - {url: http://a, bootstrap-port: none}\ndecode: [http://b]\n")
	f.Add("port: &a 1\nhost: *a\n<<: {x: 1}\n? [a]\n: b\n")
	f.Add("- a\n---\n...\n!!str x: |\n  y\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := newIntake()
		if err := in.readYAML("f.yaml", []byte(text)); err == nil {
			_ = in.cfg.Workers.Validate()
			_ = in.effective()
		}
	})
}
