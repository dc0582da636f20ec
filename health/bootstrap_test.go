package health

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pdrouter/exchange"
	"pdrouter/workers"
)

// realRoute is what the bootstrap server of SGLang 0.5.23 answered.
const realRoute = `{"attn_tp_size": 1, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1, "page_size": 16, "kv_cache_dtype": "auto", "follow_bootstrap_room": true, ` +
	`"enable_dsa_cache_layer_split": false, "decode_allocation_policy": "early", "enable_kv_cache_sharding": false, "prefill_http_port": 8301, "target_tp_rank": null}`

func TestAskRoute(t *testing.T) {
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    answer // a part of the reason
		route   route
	}{
		"a real one": {func(w http.ResponseWriter, r *http.Request) {
			for _, rank := range []string{"prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank"} {
				if r.URL.Path != "/route" || r.FormValue(rank) != "-1" {
					t.Errorf("asked for %s", r.URL)
				}
			}
			says(200, realRoute)(w, r)
		}, answer{}, route{16, "auto"}},
		"one that says little":                   {says(200, `{"page_size": null}`), answer{}, route{}},
		"ranks that have not all registered yet": {says(503, "Prefill server not fully registered yet"), answer{kind: failing, told: true, reason: "status 503; no hand-off works without it"}, route{}},
		"an engine without that page":            {says(404, ""), answer{}, route{}},
		"one that wants it asked otherwise":      {says(400, "Missing inputs for bootstrap server."), answer{}, route{}},
		"some other server":                      {says(200, "<html>"), answer{reason: "not that of a bootstrap server"}, route{}},
		"a connection that is cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, answer{
			kind: failing, reason: "; no hand-off works without it",
		}, route{}},
		"a page without end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}, answer{reason: "not that of a bootstrap server"}, route{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := engine(t, c.handler)
			at := strings.TrimPrefix(w.URL, "http://")
			got, told := askRoute(t.Context(), bootstrap{w.Peer, at})
			if got.kind != c.want.kind || got.told != c.want.told || !strings.Contains(got.reason, c.want.reason) || told != c.route {
				t.Errorf("askRoute = %+v, %+v, want %+v, %+v", got, told, c.want, c.route)
			}
			if (got.reason != "") != (c.want.reason != "") || got.reason != "" && !strings.Contains(got.reason, at) {
				t.Errorf("the reason is %q, want one that names %s, or none", got.reason, at)
			}
		})
	}
}

// A station is a clinic whose prefill workers have bootstrap servers.
type station struct {
	*clinic

	mu     sync.Mutex
	answer answer
	told   route
	asked  int
}

// TestBootstrapProbe is about prefill engines that answer /health with 200.
func TestBootstrapProbe(t *testing.T) {
	cfg := DefaultConfig()
	refused := answer{kind: failing, reason: "bootstrap server 10.0.0.1:8998: connection refused"}
	for name, f := range map[string]func(*testing.T, *station, *workers.Worker){
		"three failures bar it, two successes let it in": func(t *testing.T, s *station, w *workers.Worker) {
			time.Sleep(2 * time.Minute)
			s.set(refused)
			time.Sleep(cfg.ProbeInterval + 4*beat)
			if !s.isBarred(w) || s.reasonOf(w, workers.Probing) != "probes fail: "+refused.reason {
				t.Fatalf("barred %v, for %q", s.isBarred(w), s.reasonOf(w, workers.Probing))
			}
			s.set(answer{})
			time.Sleep(3 * beat)
			if s.isBarred(w) {
				t.Error("it is barred, though its bootstrap server is back")
			}
		},
		"one whose ranks have not registered gets nothing until they have": func(t *testing.T, s *station, w *workers.Worker) {
			s.set(answer{kind: failing, told: true, reason: "status 503"})
			time.Sleep(beat)
			if !s.isBarred(w) {
				t.Fatal("it is not barred")
			}
			s.set(answer{})
			time.Sleep(beat + time.Millisecond)
			if s.isBarred(w) {
				t.Error("it is barred")
			}
		},
		"one that cannot be reached from here, though its hand-offs work, stays in": func(t *testing.T, s *station, w *workers.Worker) {
			s.set(refused)
			s.run(t, 0, 0, nil, nil)
			time.Sleep(10 * time.Minute)
			if s.isBarred(w) {
				t.Error("it is barred")
			}
			if got := s.history(Probes); len(got) != 1 || got[0] != "prefill-0 answering>unclear" {
				t.Errorf("events are %q, want one that says so", got)
			}
		},
		"what it tells completes the facts, also under traffic": func(t *testing.T, s *station, w *workers.Worker) {
			s.tell(route{64, "fp8_e5m2"})
			s.run(t, 0, 0, nil, nil)
			time.Sleep(2 * beat)
			if got := s.Statuses()[0].Facts; got.PageSize != 64 || got.KVDtype != "fp8_e5m2" {
				t.Errorf("facts are %+v", got)
			}
		},
		"it is asked again at once when the engine has said anew what it is": func(t *testing.T, s *station, _ *workers.Worker) {
			time.Sleep(2 * time.Minute)
			s.mu.Lock()
			n := s.asked
			s.mu.Unlock()
			s.reach(0)
			time.Sleep(2 * beat)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.asked <= n {
				t.Error("it is not asked")
			}
		},
		"one that is not known is not asked": func(t *testing.T, s *station, w *workers.Worker) {
			s.fleet.mu.Lock()
			s.statuses[0].Bootstrap = nil
			s.fleet.mu.Unlock()
			s.set(refused)
			time.Sleep(10 * time.Minute)
			if s.isBarred(w) {
				t.Error("it is barred")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openStation(t, cfg)
				f(t, s, s.prefill[0])
			})
		})
	}
}

func (s *station) set(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = a
}

func (s *station) tell(r route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = r
}

// reach gives a prefill worker a bootstrap server, another one each time.
func (s *station) reach(i int) {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.statuses[i].Bootstrap = new(exchange.Peer)
}

// openStation runs a Monitor of two prefill workers until the test ends. What is
// said of a bootstrap server is said of the first one.
func openStation(t *testing.T, cfg Config) *station {
	s := &station{}
	s.clinic = newClinic(t, newFleet(cfg, 2, 2), cfg)
	s.reach(0)
	s.monitor.route = func(_ context.Context, b bootstrap) (answer, route) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		return s.answer, s.told
	}
	s.start(t)
	return s
}
