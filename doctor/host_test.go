package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pdrouter/survey"
	"pdrouter/systemd"
)

func TestListeners(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	c := Case{Proc: "/proc", Listeners: []Listener{
		{"port", "127.0.0.1", port},
		{"prometheus-port", "127.0.0.1", 0},
		{"host", "192.0.2.1", 0},
		{"host", "unix:" + filepath.Join(t.TempDir(), "a.sock"), 0},
		{"host", "unix:/no/such/a.sock", 0},
	}}
	found := c.listeners(t.Context())
	wantFinding(t, found, Listeners, Fault, fmt.Sprintf("--port: 127.0.0.1:%d is taken by doctor.test (process %d)", port, os.Getpid()))
	wantFinding(t, found, Listeners, OK, "--prometheus-port: 127.0.0.1:0 is free")
	wantFinding(t, found, Listeners, Fault, "192.0.2.1 is no address of this host")
	wantFinding(t, found, Listeners, OK, "can be made")
	wantFinding(t, found, Listeners, Fault, "no such file or directory")
	c.PID = os.Getpid()
	wantFinding(t, c.listeners(t.Context()), Listeners, OK, "is open: the router runs")
	c.Proc = t.TempDir() // as a user who may not look
	wantFinding(t, c.listeners(t.Context()), Listeners, OK, "is open, and a router runs")
	c.PID = 0
	wantFinding(t, c.listeners(t.Context()), Listeners, Warning, "by whom cannot be seen")
}

func TestLimits(t *testing.T) {
	proc := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc, "7"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "Limit                     Soft Limit           Hard Limit           Units\nMax open files            100                  1024                 files\n"
	if err := os.WriteFile(filepath.Join(proc, "7/limits"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	unit := units{{Name: "pdrouter.service", Load: "loaded", FileLimit: 524288}}
	for _, tt := range []struct {
		c      Case
		status Status
		words  string
	}{
		{Case{PID: 7, Manager: unit}, Warning, "process 7: 1024 open files are allowed, which is 256 requests"},
		{Case{PID: 7, MostRequests: 200}, OK, "1024 open files are allowed, 200 requests need 856"},
		{Case{PID: 7, MostRequests: 1000}, Fault, "1000 requests (--max-concurrent-requests) need 3256"},
		{Case{Manager: unit}, OK, "pdrouter.service: 524288 open files are allowed"},
		{Case{PID: 8, MostRequests: 1}, OK, "this shell: "},
	} {
		tt.c.Proc = proc
		wantFinding(t, tt.c.limits(t.Context()), Limits, tt.status, tt.words)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := Case{Secrets: []Secret{
		{file("open", 0o644), "keys", false}, {file("key", 0o644), "a key", true}, {file("shut", 0o640), "keys", false}, {"/no/such", "keys", false},
	}}
	found := c.files()
	wantFinding(t, found, Files, Warning, "open: every user of this host may read keys (mode 0644)")
	wantFinding(t, found, Files, Fault, "key: every user of this host may read a key")
	wantFinding(t, found, Files, OK, "shut: others do not read keys (mode 0640)")
	wantFinding(t, found, Files, Unknown, "/no/such")
}

// units is a manager of some units.
type units []systemd.Unit

func (u units) Units(context.Context, string) ([]systemd.Unit, error) {
	if len(u) == 0 {
		return nil, errors.New("no")
	}
	return u, nil
}

func TestService(t *testing.T) {
	for _, tt := range []struct {
		manager Units
		status  Status
		words   string
	}{
		{nil, Unknown, "systemd does not run here"},
		{units{}, Unknown, "there is no such unit"},
		{units{{Load: "not-found"}}, Unknown, "there is no such unit"},
		{units{{Load: "loaded", Active: "active", Type: "notify"}}, OK, "active, Type=notify"},
		{units{{Load: "loaded", Active: "failed", Result: "exit-code", Type: "notify"}}, Fault, "it has failed (exit-code)"},
		{units{{Load: "loaded", Restarts: 3}}, Warning, "started it again 3 times"},
		{units{{Load: "loaded", NeedsReload: true}}, Warning, "its file has changed"},
		{units{{Load: "loaded", Type: "simple"}}, Warning, "it is of Type=simple"},
		{units{{Load: "loaded", Command: []string{"pdrouter", "serve", "--config", "/b.yaml"}}}, Warning, "it runs with /b.yaml, and this examination is about /a.yaml"},
	} {
		c := Case{Manager: tt.manager, Unit: "pdrouter.service", Config: "/a.yaml"}
		wantFinding(t, c.service(t.Context()), Service, tt.status, tt.words)
	}
}

func TestBetween(t *testing.T) {
	base := survey.Engine{Kind: survey.SGLang, Models: []string{"m"}, PageSize: 64, KVDtype: "auto", Dtype: "bfloat16", TP: 2, Backend: "mooncake", Version: "1"}
	for _, tt := range []struct {
		change func(*survey.Engine)
		want   string // what of the first gap; empty: none
		apart  bool
	}{
		{func(*survey.Engine) {}, "", false},
		{func(e *survey.Engine) { e.PageSize, e.KVDtype, e.TP = 0, "", 0 }, "", false}, // it does not tell
		{func(e *survey.Engine) { e.KVDtype = "fp8_e5m2" }, "the KV cache's dtype is auto on prefill, and fp8_e5m2 on decode", true},
		{func(e *survey.Engine) { e.Backend = "nixl" }, "the transfer backend is mooncake on prefill, and nixl on decode", true},
		{func(e *survey.Engine) { e.TP = 4 }, "tensor parallelism is 2 on prefill, and 4 on decode", false},
		{func(e *survey.Engine) { e.Dtype = "float16" }, "the model's dtype is bfloat16 on prefill, and float16 on decode", false},
		{func(e *survey.Engine) { e.Version = "2" }, "the version is 1 on prefill, and 2 on decode", false},
	} {
		other := base
		tt.change(&other)
		switch gaps := between(&base, &other); {
		case tt.want == "" && len(gaps) != 0, tt.want != "" && (len(gaps) != 1 || gaps[0].what != tt.want || gaps[0].apart != tt.apart):
			t.Errorf("gaps = %+v, want %q", gaps, tt.want)
		}
	}
}

// What decode engines elsewhere reach is not known here, and is not said to be.
func TestHandOffsToOtherHosts(t *testing.T) {
	prefill := func(host string) examined {
		return examined{Worker: Worker{ID: "prefill-0", Role: "prefill", URL: "http://" + host + ":21000"}, engine: &survey.Engine{Kind: survey.SGLang, Role: "prefill", BootstrapPort: 9}}
	}
	decode := examined{Worker: Worker{ID: "decode-0", Role: "decode", URL: "http://192.0.2.1:21100"}}
	var c Case
	wantFinding(t, c.handOffs(t.Context(), []examined{prefill("127.0.0.1"), decode}), HandOffs, Fault, "are told to find its bootstrap server at 127.0.0.1:9, which is themselves")
	here := prefill("127.0.0.1")
	here.BootstrapHost = "0.0.0.0" // is reached as this host, and is not loopback
	wantFinding(t, c.handOffs(t.Context(), []examined{here, decode}), HandOffs, Warning, "cannot be known from here")
	decode.engine = &survey.Engine{Kind: survey.VLLM, HandsOver: true, Handoffs: 12}
	wantFinding(t, c.handOffs(t.Context(), []examined{decode}), HandOffs, OK, "it has fetched 12 hand-offs")
}

func TestClocks(t *testing.T) {
	w := examined{Worker: Worker{ID: "decode-0"}, engine: &survey.Engine{Clocked: true, Ahead: -90 * time.Second}}
	wantFinding(t, clocks([]examined{w}), Clocks, Warning, "its clock is 90 s behind this host's")
	w.engine.Clocked = false
	wantFinding(t, clocks([]examined{w}), Clocks, Unknown, "no engine tells its time")
}

func TestClientIdle(t *testing.T) {
	for idle, want := range map[time.Duration]Status{0: OK, 60 * time.Second: Warning, 90 * time.Second: OK} {
		c := Case{ClientIdle: idle}
		wantFinding(t, c.clientIdle(), KeepAlive, want, "--idle-connection-timeout-secs")
	}
}
