package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pdrouter/admin"
	"pdrouter/sim"
	"pdrouter/systemd"
)

// units is a manager whose units are simulated engines as processes.
type units struct {
	engines map[string]*engineProcess
	order   []string
	broken  string // the unit that does not come back
	began   []string
}

func (u *units) Units(_ context.Context, pattern string) ([]systemd.Unit, error) {
	var all []systemd.Unit
	for _, name := range u.order {
		if ok, _ := filepath.Match(pattern, name); ok {
			at, _ := url.Parse(u.engines[name].url)
			unit := systemd.Unit{Name: name, Load: "loaded", Active: "active", Result: "success", Command: []string{"sim", "--port", "${AT}"}, Environment: []string{"AT=" + at.Port()}}
			if name == u.broken && len(u.began) > 0 {
				unit.Active, unit.Result = "failed", "exit-code"
			}
			all = append(all, unit)
		}
	}
	return all, nil
}

func (u *units) Restart(_ context.Context, name string) error {
	u.began = append(u.began, name)
	u.engines[name].kill()
	if name == u.broken {
		return nil // as with Type=exec: that it ends again shows later
	}
	u.engines[name].start() //nolint:contextcheck // it outlives the command
	return nil
}

// A ring is a fleet of engines as processes, which units run, under load.
type ring struct {
	*units
	fleet  *fleet
	socket string
	served atomic.Int64
	rest   func() // ends the clients; engines that were started again end before any cleanup
}

// startRing runs two prefill and two decode engines, a router, and six clients
// that must never see a failure.
func startRing(t *testing.T, dialect string) *ring {
	t.Helper()
	r := &ring{units: &units{engines: map[string]*engineProcess{}}, socket: filepath.Join(t.TempDir(), "a.sock")}
	var all [2][]*engineProcess
	for i := range 4 {
		role := [...]string{sim.Prefill, sim.Decode}[i/2]
		e := startProcess(t, dialect, role, "--decode-us-per-token", "3000")
		name := fmt.Sprintf("%s@%d.service", role, i)
		r.engines[name], r.order = e, append(r.order, name)
		all[i/2] = append(all[i/2], e)
	}
	r.fleet = newProcessFleet(t, func(c *Config) { c.AdminSocket = r.socket }, all[0], all[1])
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	client := newClient(t)
	for i := range 6 {
		go func() {
			defer func() { ended <- struct{}{} }()
			for k := 0; ctx.Err() == nil; k++ {
				wantStream(t, client, r.fleet.base, prompt(i*7+k%5, 400), 40)
				r.served.Add(1)
			}
		}()
	}
	r.rest = func() {
		stop()
		for range 6 {
			<-ended
		}
	}
	if !eventually(func() bool { return r.served.Load() > 20 }) {
		t.Fatal("the clients are not served")
	}
	return r
}

// wantStream asks for a stream, which must come whole: unlike a JSON answer it is
// not tried again once it has begun.
func wantStream(t *testing.T, client *http.Client, base, prompt string, tokens int) {
	t.Helper()
	body := jsonOf(t, map[string]any{"model": "sim-model", "prompt": prompt, "max_tokens": tokens, "ignore_eos": true, "stream": true})
	status, answer := post(t, client, base+"/v1/completions", body)
	h, err := parseStream("/v1/completions", answer)
	if want := expectAll(t, "/v1/completions", body)[0]; status != 200 || err != nil || !h.done || h.texts[0] != want {
		t.Errorf("stream = %d %+v, %v, want it whole", status, h, err)
	}
}

// restart runs the command with the units of r, and returns what it says.
func (r *ring) restart(t *testing.T, worker string, patterns ...string) (said string, err error) {
	t.Helper()
	c, err := (&adminPlace{socket: r.socket}).client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var out bytes.Buffer
	todo := &restarter{restartOrder: restartOrder{worker: worker, within: 30 * time.Second}, manager: r.units, client: c, shown: newScreen(&out)}
	err = todo.run(t.Context(), patterns)
	return out.String(), err
}

func (r *ring) status(t *testing.T, id string) string {
	t.Helper()
	return (&operated{t: t, socket: r.socket}).worker(id).Status
}

// All engines of either role are restarted, one after the other, while clients
// ask: none of them notices.
func TestRollingRestart(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			r := startRing(t, dialect)
			defer r.rest()
			before := r.served.Load()
			said, err := r.restart(t, "", "prefill@*", "decode@*")
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			during := r.served.Load() - before
			if len(r.began) != 4 || strings.Count(said, "ready again") != 4 || strings.Contains(said, "warning") {
				t.Errorf("restarted %q\n%s", r.began, said)
			}
			for _, id := range []string{"prefill-0", "prefill-1", "decode-0", "decode-1"} {
				if got := r.status(t, id); got != admin.Ready {
					t.Errorf("%s is %s", id, got)
				}
			}
			if during < 20 {
				t.Errorf("%d requests meanwhile, too few to show anything", during)
			}
			t.Logf("%d requests meanwhile, %v tried again", during, r.fleet.scraped(t).sum("smg_worker_retries_total", ""))
		})
	}
}

// What does not come back ends it there: it stays drained, and the rest is not
// touched.
func TestRestartThatDoesNotComeBack(t *testing.T) {
	r := startRing(t, sim.SGLang)
	defer r.rest()
	r.broken = "decode@2.service"
	said, err := r.restart(t, "", "decode@*")
	if err == nil || len(r.began) != 1 {
		t.Fatalf("restarted %q, %v\n%s", r.began, err, said)
	}
	for _, want := range []string{
		"decode@2.service (decode-0): it did not come back: the unit has failed (failed, exit-code); journalctl -u decode@2.service says why",
		"the worker stays drained", "\nnot touched: decode@3.service (decode-1)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %q, want %q", err, want)
		}
	}
	if a, b := r.status(t, "decode-0"), r.status(t, "decode-1"); a != admin.Drained || b != admin.Ready {
		t.Errorf("decode-0 is %s and decode-1 %s", a, b)
	}
	r.engines[r.broken].start()
}

func TestRestartThatIsRefused(t *testing.T) {
	r := startRing(t, sim.SGLang)
	defer r.rest()
	r.engines["lone.service"] = &engineProcess{url: "http://127.0.0.1:9"}
	r.engines["twin.service"] = r.engines["decode@2.service"]
	r.order = append(r.order, "lone.service", "twin.service")
	for _, tt := range []struct {
		name, worker string
		patterns     []string
		want         string
	}{
		{"no unit", "", []string{"x@*"}, "x@*: no such unit is loaded"},
		{"no worker", "", []string{"lone.service"}, "lone.service: no worker of the router is at port 9 of this host"},
		{"two units", "", []string{"decode@*", "twin.service"}, "twin.service: its port is that of decode@2.service too"},
		{"no such ID", "decode-7", []string{"lone.service"}, "lone.service: --worker: there is no decode-7"},
	} {
		if _, err := r.restart(t, tt.worker, tt.patterns...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if len(r.began) != 0 {
		t.Errorf("restarted %q", r.began)
	}
}

func TestWorkerOfAUnit(t *testing.T) {
	unit := func(command ...string) systemd.Unit {
		return systemd.Unit{Load: "loaded", Command: command, Environment: []string{"PORT=21000"}}
	}
	all := []admin.WorkerInfo{
		{ID: "prefill-0", URL: "http://127.0.0.1:21000"},
		{ID: "decode-0", URL: "http://127.0.0.1:21100"},
		{ID: "decode-1", URL: "http://192.0.2.1:21000"},
		{ID: "decode-2", URL: "unix:/run/e.sock"},
		{ID: "prefill-1", URL: "http://localhost:21100"},
	}
	for _, tt := range []struct {
		name   string
		unit   systemd.Unit
		worker string
		want   string // ID, or a part of the error
	}{
		{"a port of its environment, on this host", unit("engine"), "", "prefill-0"},
		{"its command counts more", unit("engine", "--uds=/run/e.sock"), "", "decode-2"},
		{"two workers", unit("engine", "--port", "21100"), "", "port 21100 of this host may be decode-0 (http://127.0.0.1:21100) or prefill-1"},
		{"one that says that it is another", systemd.Unit{Load: "loaded", Environment: []string{"PORT=21000", "WORKER=decode-0"}}, "", "port 21000 of this host is prefill-0, but the unit's WORKER is decode-0"},
		{"the one that is named", unit("engine", "--port", "21100"), "prefill-1", "prefill-1"},
		{"one that is not loaded", systemd.Unit{Load: "not-found"}, "", "no such unit (not-found)"},
		{"one that tells nothing", systemd.Unit{Load: "loaded"}, "", "neither its command nor its environment tells a port"},
		{"one whose file is secret", systemd.Unit{Load: "loaded", Unread: []string{"/e.env"}}, "", "/e.env cannot be read"},
	} {
		r := &restarter{restartOrder: restartOrder{worker: tt.worker}}
		w, err := r.workerOf(&tt.unit, all)
		if got := w.ID + fmt.Sprint(errors.Unwrap(err), err); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, %v, want %s", tt.name, w.ID, err, tt.want)
		}
	}
}
