package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pdrouter/sim"
	"pdrouter/workers"
)

func TestAddShowsHowFarItIs(t *testing.T) {
	d := newDesk(t, nil)
	e := engine(t, sim.SGLang, sim.Prefill, nil)
	got := d.ask("POST", "/workers", fmt.Sprintf(`{"url":%q,"worker_type":"prefill","bootstrap_port":%d,"labels":{"rack":"a"},"priority":75}`, e.URL(), e.BootstrapPort()))
	a := want[Accepted](t, got, 202)
	if a.Status != "accepted" || a.WorkerID != "prefill-0" || a.URL != e.URL() || a.Location != "/workers/prefill-0" || got.header.Get("Location") != a.Location {
		t.Errorf("answer = %+v, Location %q", a, got.header.Get("Location"))
	}
	w := d.await(a.WorkerID, Ready)
	if w.Job != nil || !w.IsHealthy || w.ModelID != "sim-model" || w.WorkerType != "prefill" || w.RuntimeType != "sglang" ||
		w.BootstrapPort != e.BootstrapPort() || w.Labels["rack"] != "a" || w.Priority != 75 || w.Cost != 1 {
		t.Errorf("worker = %+v", w)
	}
	if w := d.await(d.add("decode", engine(t, sim.SGLang, sim.Decode, nil).URL()), Ready); w.BootstrapPort != 0 || w.BootstrapHost != "" {
		t.Errorf("a decode worker has a bootstrap server: %+v", w)
	}
	// One that is not there yet is a job that goes on.
	late := d.add("decode", "http://127.0.0.1:9")
	if !eventually(func() bool { return d.worker(late).Reason == "connection refused" }) {
		t.Fatalf("worker = %+v", d.worker(late))
	}
	w = d.worker(late)
	if w.Status != Pending || w.Job == nil || w.Job.Type != "AddWorker" || w.Job.Status != "processing" || *w.Job.Message != "connection refused" || w.Job.Timestamp == 0 {
		t.Errorf("worker = %+v, job %+v", w, w.Job)
	}
	var raw map[string]any
	if err := json.Unmarshal([]byte(d.ask("GET", "/workers/"+late, "").body), &raw); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"id", "url", "worker_type", "connection_mode", "runtime_type", "priority", "cost", "is_healthy", "status", "load", "job_status"} {
		if _, ok := raw[key]; !ok {
			t.Errorf("the answer has no %s: %v", key, raw)
		}
	}
	list := want[List](t, d.ask("GET", "/workers", ""), 200)
	if list.Total != 3 || list.Stats != (Stats{Prefill: 1, Decode: 2}) {
		t.Errorf("list = %+v", list)
	}
	list = want[List](t, d.ask("GET", "/workers?model=sim-model", ""), 200)
	if list.Total != 2 || list.Stats != (Stats{Prefill: 1, Decode: 1}) || list.Workers[0].ID != "prefill-0" {
		t.Errorf("list of a model = %+v", list)
	}
}

// An engine that answers and does not fit is a job that has failed, and says
// why.
func TestAddOfAnEngineThatDoesNotFit(t *testing.T) {
	d := newDesk(t, func(c *workers.Config) { c.Dialect = "vllm-nixl" })
	id := d.add("decode", engine(t, sim.SGLang, sim.Decode, nil).URL())
	w := d.await(id, Failed)
	if w.Job == nil || w.Job.Status != "failed" || !strings.Contains(*w.Job.Message, "sglang") {
		t.Errorf("worker = %+v, job %+v", w, w.Job)
	}
}

func TestBodiesAreTakenWordByWord(t *testing.T) {
	d := newDesk(t, nil)
	with := func(more string) string { return `{"url":"http://127.0.0.1:9","worker_type":"decode",` + more + `}` }
	tests := []struct{ name, body, want string }{
		{"nothing", ``, "must be a JSON object"},
		{"a list", `[]`, "must be a JSON object"},
		{"half an object", `{"url":"http://a"`, "not JSON"},
		{"two objects", `{"url":"http://a","worker_type":"decode"} {}`, "something follows"},
		{"no URL", `{"worker_type":"decode"}`, "url: missing"},
		{"no role", `{"url":"http://a"}`, "worker_type: missing"},
		{"a regular worker", `{"url":"http://a","worker_type":"regular"}`, `worker_type: "regular": only prefill and decode`},
		{"a key nobody knows", with(`"wieght":1`), `unknown key "wieght"`},
		{"a key in other letters", with(`"Api_Key":"x"`), `unknown key "Api_Key"`},
		{"a key twice", `{"url":"http://a","url":"http://b","worker_type":"decode"}`, "url: given twice"},
		{"two faults", with(`"a":1,"b":2`), `unknown key "a"; unknown key "b"`},
		{"a URL that is none", `{"url":"banana","worker_type":"decode"}`, "scheme must be"},
		{"a URL of gRPC", `{"url":"grpc://a:1","worker_type":"decode"}`, "scheme must be"},
		{"a URL with a path", `{"url":"http://a/b","worker_type":"decode"}`, "only scheme, host and port"},
		{"a URL with a password", `{"url":"http://u:pw@a","worker_type":"decode"}`, "no user or password"},
		{"a number as URL", `{"url":1,"worker_type":"decode"}`, "url: must be a string"},
		{"a bootstrap port of decode", with(`"bootstrap_port":8998`), "no bootstrap server"},
		{"a port out of range", with(`"bootstrap_port":70000`), "bootstrap_port: must be a port"},
		{"a prefill that nobody could reach", `{"url":"http://0.0.0.0:1","worker_type":"prefill"}`, "wildcard"},
		{"settings of health", with(`"health":{"check_interval_secs":1}`), "--health-*"},
		{"settings of breakers", with(`"resilience":{"cb_failure_threshold":1}`), "--cb-*"},
		{"limits of load", with(`"overload":{"token_usage":0.5}`), "--worker-overload-*"},
		{"an engine of another kind", with(`"runtime_type":"trtllm"`), "only sglang and vllm"},
		{"another transport", with(`"connection_mode":"grpc"`), "in HTTP"},
		{"another connector", with(`"kv_connector":"MooncakeConnector"`), "NixlConnector"},
		{"a second name for a model", with(`"models":[{"id":"m","aliases":["n"]}]`), "aliases are not routed"},
		{"a rank", with(`"dp_rank":0`), "chooses among its ranks"},
		{"a label that is no string", with(`"labels":{"a":1}`), "labels: must be"},
		{"a negative priority", with(`"priority":-1`), "priority: must be"},
		{"a key with a line break", with(`"api_key":"a\nb"`), "api_key: must be"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantError(t, d.ask("POST", "/workers", tt.body), 400, "BAD_REQUEST", tt.want) })
	}
	harmless := with(`"priority":10,"cost":0.5,"labels":{},"models":[{"id":"m","context_length":9}],"runtime":"sglang","connection_mode":"http","kv_role":"kv_both",` +
		`"kv_connector":"NixlConnector","bootstrap_port":null,"api_key":null,"health":{},"resilience":{},"http_pool":{},"max_connection_attempts":20,"provider":null`)
	if w := d.worker(want[Accepted](t, d.ask("POST", "/workers", harmless), 202).WorkerID); w.Priority != 10 || w.Cost != 0.5 {
		t.Errorf("worker = %+v", w)
	}
}

func TestDuplicates(t *testing.T) {
	d := newDesk(t, nil)
	id := d.add("decode", "http://127.0.0.1:9")
	wantError(t, d.ask("POST", "/workers", `{"url":"http://127.0.0.1:9","worker_type":"decode"}`), 409, "WORKER_ALREADY_EXISTS", "with ID "+id)
	// Many at once: one of them is first.
	statuses := make(chan int, 20)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got, err := d.send("POST", "/workers", `{"url":"http://127.0.0.1:10","worker_type":"decode"}`)
			if err != nil {
				t.Error(err)
			}
			statuses <- got.status
		})
	}
	wg.Wait()
	close(statuses)
	var all []int
	for s := range statuses {
		all = append(all, s)
	}
	slices.Sort(all)
	if all[0] != 202 || all[1] != 409 || all[19] != 409 {
		t.Errorf("statuses = %v, want one 202 and 409 for the others", all)
	}
}

func TestPatch(t *testing.T) {
	d := newDesk(t, nil)
	id := d.add("decode", "http://127.0.0.1:9")
	got := want[Accepted](t, d.ask("PATCH", "/workers/"+id, `{"labels":{"a":"1","b":"1"},"priority":7}`), 202)
	if got.WorkerID != id || got.Status != "accepted" {
		t.Errorf("answer = %+v", got)
	}
	want[Accepted](t, d.ask("PATCH", "/workers/"+id, `{"labels":{"b":"2"},"cost":2.5,"health":{}}`), 202)
	if w := d.worker(id); !reflect.DeepEqual(w.Labels, map[string]string{"a": "1", "b": "2"}) || w.Priority != 7 || w.Cost != 2.5 {
		t.Errorf("worker = %+v", w)
	}
	wantError(t, d.ask("PATCH", "/workers/"+id, `{"url":"http://b"}`), 400, "BAD_REQUEST", "PUT describes a worker anew")
	wantError(t, d.ask("PATCH", "/workers/"+id, `{"health":{"disable_health_check":true}}`), 400, "BAD_REQUEST", "--health-*")
	wantError(t, d.ask("PATCH", "/workers/no", `{"cost":2.5}`), 404, "WORKER_NOT_FOUND", "no")
	// A new key makes a new worker, to which the old ID and the labels lead.
	next := want[Accepted](t, d.ask("PATCH", "/workers/"+id, `{"api_key":"k"}`), 202).WorkerID
	if w := d.worker(id); w.ID != next || next == id || w.Labels["a"] != "1" || w.Priority != 7 {
		t.Errorf("%s leads to %+v, want to %s with what was noted", id, w, next)
	}
}

func TestPut(t *testing.T) {
	d := newDesk(t, nil)
	e := engine(t, sim.VLLMNixl, sim.Decode, nil)
	id := d.add("decode", e.URL())
	d.await(id, Ready)
	want[Accepted](t, d.ask("PATCH", "/workers/"+id, `{"labels":{"a":"1"}}`), 202)
	body := `{"url":"` + e.URL() + `","worker_type":"decode","cost":3}`
	got := d.ask("PUT", "/workers/"+id, body)
	next := want[Accepted](t, got, 202).WorkerID
	if next == id || got.header.Get("Location") != "/workers/"+next {
		t.Errorf("answer = %s, Location %q, want a new ID", got.body, got.header.Get("Location"))
	}
	if w := d.await(id, Ready); w.ID != next || w.Labels != nil || w.Cost != 3 {
		t.Errorf("%s leads to %+v, want to %s as it was described last", id, w, next)
	}
	third := want[Accepted](t, d.ask("PUT", "/workers/"+id, body), 202).WorkerID
	for _, old := range []string{id, next, third} {
		if w := d.await(old, Ready); w.ID != third {
			t.Errorf("%s leads to %s, want %s", old, w.ID, third)
		}
	}
	wantError(t, d.ask("PUT", "/workers/"+id, `{"url":"http://127.0.0.1:9","worker_type":"decode"}`), 400, "BAD_REQUEST", "does not move a worker")
	wantError(t, d.ask("PUT", "/workers/no", body), 404, "WORKER_NOT_FOUND", "no")
	want[Accepted](t, d.ask("DELETE", "/workers/"+id, ""), 202)
	if !eventually(func() bool { return len(d.registry.Statuses()) == 0 }) {
		t.Errorf("workers are left: %+v", d.registry.Statuses())
	}
	wantError(t, d.ask("GET", "/workers/"+id, ""), 404, "WORKER_NOT_FOUND", id)
}

// A worker that is drained or removed keeps the requests that it has, and gets
// no other.
func TestDrainAndDelete(t *testing.T) {
	d := newDesk(t, nil)
	p := d.add("prefill", engine(t, sim.SGLang, sim.Prefill, nil).URL())
	e := engine(t, sim.SGLang, sim.Decode, nil)
	id := d.add("decode", e.URL())
	d.await(p, Ready)
	d.await(id, Ready)
	lease := func() (*workers.Pair, error) {
		pair := &workers.Pair{}
		return pair, d.registry.Lease(context.Background(), workers.Need{}, pair)
	}
	pair, err := lease()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is so already is no error
		if got := want[Accepted](t, d.ask("POST", "/workers/"+id+"/drain", ""), 202); got.WorkerID != id {
			t.Errorf("answer = %+v", got)
		}
	}
	if w := d.worker(id); w.Status != Draining || w.Load != 1 || w.IsHealthy || w.Job != nil {
		t.Errorf("worker = %+v, want it draining with one under way", w)
	}
	if _, err := lease(); err == nil {
		t.Error("a worker that drains is leased")
	}
	pair.Prefill.Done(nil)
	pair.Decode.Done(nil)
	if w := d.worker(id); w.Status != Drained || w.Load != 0 {
		t.Errorf("worker = %+v, want it drained", w)
	}
	want[Accepted](t, d.ask("POST", "/workers/"+id+"/undrain", "{}"), 202)
	if pair, err = lease(); err != nil {
		t.Fatalf("after undrain: %v", err)
	}
	want[Accepted](t, d.ask("DELETE", "/workers/"+id, ""), 202)
	if w := d.worker(id); w.Status != Draining || w.Load != 1 || w.Job == nil || w.Job.Type != "RemoveWorker" || w.Job.Status != "processing" {
		t.Errorf("worker = %+v, job %+v, want it draining", w, w.Job)
	}
	wantError(t, d.ask("POST", "/workers/"+id+"/undrain", ""), 404, "WORKER_NOT_FOUND", id)
	wantError(t, d.ask("PATCH", "/workers/"+id, `{"cost":1}`), 404, "WORKER_NOT_FOUND", id)
	again := d.add("decode", e.URL()) // the same URL, while the old one still has a request
	d.await(again, Ready)
	pair.Prefill.Done(nil)
	pair.Decode.Done(nil)
	wantError(t, d.ask("GET", "/workers/"+id, ""), 404, "WORKER_NOT_FOUND", id)
	if again == id {
		t.Errorf("%s is used again", id)
	}
}

// Everything at once: nothing of it races, hangs or answers 500, and what is
// noted of workers goes with them.
func TestHammer(t *testing.T) {
	d := newDesk(t, nil)
	urls := []string{engine(t, sim.SGLang, sim.Decode, nil).URL(), engine(t, sim.SGLang, sim.Decode, nil).URL(), "http://127.0.0.1:9"}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 40 {
				url := urls[(n+i)%len(urls)]
				id := fmt.Sprintf("decode-%d", (n*i)%30)
				body := `{"url":"` + url + `","worker_type":"decode","labels":{"n":"1"}}`
				for _, r := range [][3]string{
					{"POST", "/workers", body},
					{"POST", "/workers/" + id + "/drain", ""},
					{"GET", "/workers", ""},
					{"PUT", "/workers/" + id, body},
					{"PATCH", "/workers/" + id, `{"priority":1}`},
					{"POST", "/workers/" + id + "/undrain", ""},
					{"GET", "/get_loads", ""},
					{"DELETE", "/workers/" + id, ""},
				} {
					got, err := d.send(r[0], r[1], r[2])
					if err != nil || got.status >= 500 || got.status == 405 || !json.Valid([]byte(got.body)) {
						t.Errorf("%s %s = %d %s, %v", r[0], r[1], got.status, got.body, err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, s := range d.registry.Statuses() {
		if !s.Removed {
			want[Accepted](t, d.ask("DELETE", "/workers/"+s.Worker.ID, ""), 202)
		}
	}
	if !eventually(func() bool { return len(d.registry.Statuses()) == 0 }) {
		t.Fatalf("workers are left: %+v", d.registry.Statuses())
	}
	d.api.notes.prune(nil)
	if n := len(d.api.notes.byID) + len(d.api.notes.heirs); n != 0 {
		t.Errorf("%d notes are left", n)
	}
}
