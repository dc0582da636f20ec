package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pdrouter/sim"
	"pdrouter/workers"
)

func TestTargetsOf(t *testing.T) {
	status := func(role workers.Role, url string, models ...string) workers.Status {
		return workers.Status{Worker: &workers.Worker{Spec: workers.Spec{Role: role, URL: url}}, Facts: workers.Facts{Models: models}}
	}
	group := func(target, worker, role, scheme, model string) targetGroup {
		labels := map[string]string{"worker": worker, "role": role, "__scheme__": scheme}
		if model != "" {
			labels["model"] = model
		}
		return targetGroup{[]string{target}, labels}
	}
	for _, tt := range []struct {
		name string
		all  []workers.Status
		want []targetGroup
	}{
		{"nobody", nil, []targetGroup{}},
		{
			"one of which nothing is known, and one that serves a model and an adapter",
			[]workers.Status{status(workers.Prefill, "http://10.0.0.1:21000"), status(workers.Decode, "http://10.0.0.1:21100", "m", "lora")},
			[]targetGroup{
				group("10.0.0.1:21000", "http://10.0.0.1:21000", "prefill", "http", ""),
				group("10.0.0.1:21100", "http://10.0.0.1:21100", "decode", "http", "m,lora"),
			},
		},
		{
			"URLs without a port, with TLS, of IPv6",
			[]workers.Status{status(workers.Decode, "https://gpu1"), status(workers.Decode, "http://gpu2/"), status(workers.Decode, "http://[::1]:8000")},
			[]targetGroup{
				group("gpu1:443", "https://gpu1", "decode", "https", ""),
				group("gpu2:80", "http://gpu2/", "decode", "http", ""),
				group("[::1]:8000", "http://[::1]:8000", "decode", "http", ""),
			},
		},
		{"one behind a unix socket", []workers.Status{status(workers.Decode, "unix:/run/vllm/d0.sock")}, []targetGroup{}},
		{
			"one that was removed and has come again",
			[]workers.Status{status(workers.Decode, "http://d:1", "old"), status(workers.Prefill, "http://d:1"), status(workers.Decode, "http://d:1", "new")},
			[]targetGroup{group("d:1", "http://d:1", "decode", "http", "new"), group("d:1", "http://d:1", "prefill", "http", "")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := targetsOf(tt.all)
			var got []targetGroup
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("targets = %s, %v, want %v", text, err, tt.want)
			}
		})
	}
}

// TestTargetsFollowTheFleet: the file is there from the start, and has what comes
// and not what goes; whoever reads it at any time reads all of a version.
func TestTargetsFollowTheFleet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "engines.json")
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.TargetsFile = path }})
	read := func() (roles string) {
		text, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		var groups []targetGroup
		if err := json.Unmarshal(text, &groups); err != nil {
			t.Fatalf("the file is %q: %v", text, err)
		}
		for _, g := range groups {
			roles += g.Labels["role"][:1]
			if g.Labels["model"] == "sim-model" {
				roles += "m"
			}
		}
		return roles
	}
	becomes := func(want string) {
		t.Helper()
		if !eventually(func() bool { return read() == want }) {
			t.Fatalf("the file has %q, want %q", read(), want)
		}
	}
	becomes("pmpmdmdm")
	third := startEngine(t, sim.SGLang, sim.Decode, nil)
	w, err := f.registry.Add(workers.Spec{Role: workers.Decode, URL: third.URL()})
	if err != nil {
		t.Fatal(err)
	}
	becomes("pmpmdmdmdm")
	if err := f.registry.Remove(w.ID); err != nil {
		t.Fatal(err)
	}
	becomes("pmpmdmdm")
	about, err := os.Stat(path)
	if err != nil || about.Mode().Perm() != 0o644 {
		t.Errorf("its mode is %v, %v, want one that Prometheus may read", about.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("files are left beside it: %v, %v", left, err)
	}
}

// TestTargetsWhoseDirectoryGoes: what cannot be written is said once, and is
// written when it can be.
func TestTargetsWhoseDirectoryGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "engines.json")
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.TargetsFile = path }})
	there := func() bool { _, err := os.Stat(path); return err == nil }
	if !eventually(there) {
		t.Fatal("there is no file")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	const said = "file of engines for Prometheus not written"
	add := func(url string) {
		t.Helper()
		if _, err := f.registry.Add(workers.Spec{Role: workers.Decode, URL: url}); err != nil {
			t.Fatal(err)
		}
	}
	add("http://127.0.0.1:9")
	if !eventually(func() bool { return f.linesOf(said) == 1 }) {
		t.Fatal("nothing is said of it")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	add("http://127.0.0.1:10")
	if !eventually(there) {
		t.Error("it is not written again")
	}
	if n := f.linesOf(said); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}

func TestCheckTargets(t *testing.T) {
	dir := t.TempDir()
	for path, fault := range map[string]string{
		"":                              "",
		filepath.Join(dir, "e.json"):    "",
		filepath.Join(dir, "e.yml"):     "Prometheus reads JSON only",
		filepath.Join(dir, "no/e.json"): "its directory: stat " + dir + "/no: no such file or directory",
		"/dev/null/e.json":              "/dev/null is no directory",
	} {
		err := Config{TargetsFile: path}.checkTargets()
		if fault == "" && err != nil || fault != "" && (err == nil || !strings.HasPrefix(err.Error(), "prometheus-sd-file: ") || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%q: %v, want %q", path, err, fault)
		}
	}
}
