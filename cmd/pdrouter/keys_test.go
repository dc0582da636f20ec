package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"pdrouter/keys"
	"pdrouter/sim"
)

// The keys of these tests. No output may have them.
const (
	aliceKey  = "alice-secret-0123456789"
	bobKey    = "bob-secret-0123456789"
	adminKey  = "admin-secret-0123456789"
	workerKey = "worker-secret-0123456789"
)

// writeSecret writes a file that only this user reads, and returns its path.
func writeSecret(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load returns what a command line makes, and what is wrong with it.
func load(t *testing.T, args ...string) (*intake, error) {
	t.Helper()
	flags, in := serveFlags()
	args, err := normalise(flags, append([]string{"--prefill", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:2"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	_, err = in.load()
	return in, err
}

// TestKeysOfFiles count beside those of flags.
func TestKeysOfFiles(t *testing.T) {
	clients := writeSecret(t, "clients", "# the team\nalice:"+aliceKey+"\n")
	in, err := load(t, "--api-key", "short", "--api-key-file", clients, "--tenant-api-key", "bob:"+bobKey,
		"--admin-api-key-file", writeSecret(t, "admin", adminKey), "--worker-api-key-file", writeSecret(t, "worker", workerKey+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := keys.Set{keys.New("", "short"), keys.New("bob", bobKey), keys.New("alice", aliceKey)}
	if got := in.cfg.Router.APIKeys; !slices.Equal(got, want) {
		t.Errorf("keys of clients = %v, want %v", got, want)
	}
	if got := in.cfg.AdminKeys; !slices.Equal(got, keys.Of(adminKey)) {
		t.Errorf("keys of admins = %v", got)
	}
	if got := in.cfg.Workers.APIKey; got != workerKey {
		t.Errorf("key for workers = %q, want %q", got, workerKey)
	}
}

// TestKeyFilesAreCredentials by their names, if the service manager hands them
// over.
func TestKeyFilesAreCredentials(t *testing.T) {
	handed := writeSecret(t, "api-keys", aliceKey)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("api-keys", []byte(bobKey), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, directory, path, want string }{
		{"a credential", filepath.Dir(handed), "api-keys", aliceKey},
		{"no service manager", "", "api-keys", bobKey},
		{"no credential of that name", t.TempDir(), "api-keys", bobKey},
		{"a path is no name", t.TempDir(), handed, aliceKey},
		{"nothing above the credentials", filepath.Join(filepath.Dir(handed), "x"), "../api-keys", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CREDENTIALS_DIRECTORY", tt.directory)
			in, err := load(t, "--api-key-file", tt.path)
			switch got := in.cfg.Router.APIKeys; {
			case tt.want == "" && err == nil:
				t.Errorf("keys = %v, want a fault", got)
			case tt.want != "" && (err != nil || !slices.Equal(got, keys.Of(tt.want))):
				t.Errorf("keys = %v, %v, want that of %s", got, err, tt.want)
			}
		})
	}
}

// TestFaultsOfKeyFiles name the file, and never what is in it. A file without a
// key does not open the router to everybody.
func TestFaultsOfKeyFiles(t *testing.T) {
	empty, missing, two := writeSecret(t, "empty", "# later\n"), filepath.Join(t.TempDir(), "missing"), writeSecret(t, "two", aliceKey+"\n"+bobKey)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing in it", []string{"--api-key-file", empty}, fmt.Sprintf("api-key-file: %q holds no key", empty)},
		{"none for admins", []string{"--admin-api-key-file", empty}, fmt.Sprintf("admin-api-key-file: %q holds no key", empty)},
		{"no file", []string{"--api-key-file", missing}, "api-key-file: open " + missing},
		{"a short key", []string{"--api-key-file", writeSecret(t, "f", aliceKey+"\nbob:hush\n")}, `f" line 2 is no key`},
		{"two keys for workers", []string{"--worker-api-key-file", two}, fmt.Sprintf("worker-api-key-file: %q line 2 is one more key", two)},
		{"one in a file and one in a flag", []string{"--worker-api-key-file", writeSecret(t, "f", workerKey), "--worker-api-key", workerKey}, "worker-api-key-file: --worker-api-key is given too"},
		{"the admin's key is that of a client by name", []string{"--admin-on-data-listener", "--api-key-file", writeSecret(t, "f", "alice:"+aliceKey)}, "admin-on-data-listener: a key that is"},
		{"an admin key of no letters", []string{"--admin-port", "30002", "--admin-api-key="}, "admin-api-key: must not be empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.args...)
			if fault := fmt.Sprint(err); !strings.Contains(fault, tt.want) {
				t.Errorf("load = %v, want %q", err, tt.want)
			}
			for _, secret := range []string{aliceKey, bobKey, workerKey, "hush"} {
				if strings.Contains(fmt.Sprint(err), secret) {
					t.Errorf("the fault tells a key: %v", err)
				}
			}
		})
	}
}

func TestKeyFilesThatAllCanRead(t *testing.T) {
	path := writeSecret(t, "f", aliceKey)
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		in, err := load(t, "--api-key-file", path)
		if err != nil || len(in.warnings) != want {
			t.Errorf("mode %#o: warnings = %v, %v, want %d", mode, in.warnings, err, want)
		}
	}
}

// TestTheLogNamesWhoAsked, by the name of the key, and admins too.
func TestTheLogNamesWhoAsked(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) {
		c.Router.APIKeys = keys.Set{keys.New("alice", aliceKey), keys.New("", bobKey)}
		c.AdminPort, c.AdminKeys = freePort(t), keys.Set{keys.New("carol", adminKey)}
	}})
	body, _ := chatBody(t, false)
	for _, tt := range []struct {
		key    string
		status int
		name   any
	}{{aliceKey, 200, "alice"}, {bobKey, 200, nil}, {adminKey, 401, nil}, {"alice", 401, nil}} {
		f.logs.TakeAll()
		if status, _, err := request(t, http.MethodPost, f.base+"/v1/chat/completions", tt.key, body); err != nil || status != tt.status {
			t.Errorf("with %s: %d, %v, want %d", tt.key, status, err, tt.status)
		}
		if !eventually(func() bool { return f.logs.FilterField(zap.String("path", "/v1/chat/completions")).Len() == 1 }) {
			t.Fatalf("no line in the log: %v", f.logs.All())
		}
		if got := f.logs.FilterField(zap.String("path", "/v1/chat/completions")).All()[0].ContextMap()["key"]; got != tt.name {
			t.Errorf("the log names %v, want %v", got, tt.name)
		}
	}
	f.logs.TakeAll()
	if status, answer, _ := request(t, http.MethodPost, "http://"+f.adminPort.Addr().String()+"/flush_cache", adminKey, ""); status != 200 {
		t.Fatalf("POST /flush_cache: %d %s", status, answer)
	}
	if lines := f.logs.FilterMessage("admin request").All(); len(lines) != 1 || lines[0].ContextMap()["key"] != "carol" {
		t.Errorf("the log says %v, want that carol did it", lines)
	}
}

// TestNoOutputHasAKey: at the lowest level the log, the page of metrics, what is
// answered and what the commands print have no key in them, whoever sent one where.
func TestNoOutputHasAKey(t *testing.T) {
	locked := func(c *sim.Config) { c.APIKey = workerKey }
	prefill, decode := startEngine(t, sim.SGLang, sim.Prefill, locked), startEngine(t, sim.SGLang, sim.Decode, locked)
	admin := freePort(t)
	args := append(workerFlags(prefill, decode), "--log-level", "debug", "--api-key-file", writeSecret(t, "c", "alice:"+aliceKey),
		"--tenant-api-key", "bob:"+bobKey, "--admin-api-key-file", writeSecret(t, "a", adminKey), "--worker-api-key-file", writeSecret(t, "w", workerKey),
		"--admin-port", fmt.Sprint(admin))
	p := startServe(t, args...)
	adminBase := fmt.Sprint("http://127.0.0.1:", admin)
	outputs := map[string]string{}
	note := func(what, text string) { outputs[what] += text }
	if !eventually(func() bool { status, _, _ := request(t, "GET", p.base+"/readiness", "", ""); return status == 200 }) {
		t.Fatal("not ready")
	}
	good, _ := chatBody(t, false)
	for _, body := range []string{good, `{"model":"` + aliceKey + `"}`, `{"api_key":"` + bobKey, strings.Replace(good, `"stream"`, `"stream_`+workerKey+`"`, 1)} {
		for _, key := range []string{aliceKey, bobKey, adminKey, workerKey, ""} {
			_, answer, _ := request(t, "POST", p.base+"/v1/chat/completions?api_key="+aliceKey, key, body)
			if !strings.Contains(body, aliceKey) { // what a client names as its model is his
				note("answers", answer)
			}
		}
	}
	for _, path := range []string{"/get_server_info", "/get_model_info", "/v1/models", "/nothing", "/tokenize"} {
		_, answer, _ := request(t, "GET", p.base+path, aliceKey, "")
		note("answers", answer)
	}
	for _, path := range []string{"/workers", "/workers/prefill-1", "/requests", "/status", "/get_loads", "/nothing"} {
		for _, key := range []string{adminKey, aliceKey} {
			_, answer, _ := request(t, "GET", adminBase+path, key, "")
			note("the admin API", answer)
		}
	}
	_, answer, _ := request(t, "POST", adminBase+"/workers", adminKey, `{"url":"http://127.0.0.1:1","worker_type":"decode","api_key":"`+workerKey+`"}`)
	note("the admin API", answer)
	_, metricsPage, _ := request(t, "GET", p.metrics+"/metrics", "", "")
	note("the page of metrics", metricsPage)
	for _, command := range []string{"workers", "status"} {
		out, err := runCommand(t, command, "--admin-url", adminBase, "--admin-api-key", adminKey)
		note("pdrouter "+command, fmt.Sprint(out, err))
		out, err = runCommand(t, command, "--admin-url", adminBase, "--admin-api-key", aliceKey)
		note("pdrouter "+command, fmt.Sprint(out, err))
	}
	checked, err := runCommand(t, append([]string{"check"}, args...)...)
	note("pdrouter check", fmt.Sprint(checked, err))
	checked, err = runCommand(t, append([]string{"check", "--json"}, args...)...)
	note("pdrouter check", fmt.Sprint(checked, err))
	p.terminate(t)
	p.wantExit(t, 10*time.Second)
	note("the log", p.log())
	for what, text := range outputs {
		if len(text) < 100 {
			t.Errorf("%s is %q: nothing was looked at", what, text)
		}
		for _, secret := range []string{aliceKey, bobKey, adminKey, workerKey} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has a key: %q", what, text[max(0, i-100):min(len(text), i+100)])
			}
		}
	}
}
