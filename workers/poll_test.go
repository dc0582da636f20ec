package workers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/exchange"
	"pdrouter/sim"
)

// known makes a registry of one engine, whose dialect is known.
func known(t testing.TB, dialect, url string) (*Registry, *Worker) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Specs = []Spec{{Role: Decode, URL: url}}
	cfg.ProbeTimeout = 2 * time.Second
	r, err := NewRegistry(cfg, exchange.DefaultConfig(), first{}, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	w := r.all[0]
	w.facts = &Facts{Dialect: dialect}
	return r, w
}

const (
	loads = `{"loads":[{"dp_rank":0,"num_running_reqs":3,"num_waiting_reqs":2,"num_used_tokens":70,"max_total_num_tokens":100,"max_running_requests":8,` +
		`"disaggregation":{"prefill_bootstrap_queue_reqs":0,"prefill_inflight_queue_reqs":0,"decode_prealloc_queue_reqs":1,"decode_transfer_queue_reqs":1}}]}`
	oldLoads = `{"loads":[{"num_running_reqs":3,"num_waiting_reqs":2,"num_used_tokens":70,"max_total_num_tokens":100}],"aggregate":{}}`
	twoLoads = `{"loads":[{"num_running_reqs":3,"num_used_tokens":70},{"num_running_reqs":1,"num_used_tokens":5}]}`
	gauges   = "sglang:num_running_reqs 0\nsglang:kv_used_tokens 0\nsglang:page_size 64\nsglang:num_decode_transfer_queue_reqs 5\n"
)

func TestPoll(t *testing.T) {
	tests := []struct {
		name    string
		dialect string
		pages   pages
		want    string // what is told
		off     string // a part of the MetricsOffError
	}{
		{"SGLang's loads go before its gauges, which lag", "sglang", pages{"/metrics": gauges, "/v1/loads": loads}, `
KVCapacity 100
KVUsed 70
BlockSize 64
MaxRunning 8
Running 3
Waiting 2
TransferQueue 2
`, ""},
		{"its gauges count where its loads say nothing", "sglang", pages{"/metrics": gauges, "/v1/loads": oldLoads}, `
KVCapacity 100
KVUsed 70
BlockSize 64
Running 3
Waiting 2
TransferQueue 5
`, ""},
		{"and alone where it has none", "sglang", pages{"/metrics": gauges}, `
KVUsed 0
BlockSize 64
Running 0
Waiting 5
TransferQueue 5
`, ""},
		{"the loads of several ranks", "sglang", pages{"/metrics": "", "/v1/loads": twoLoads}, `
KVUsed 75
Running 4
`, ""},
		{"SGLang without metrics", "sglang", pages{"/v1/loads": loads, "/server_info": `{"page_size":64,"context_length":2048}`}, `
KVCapacity 100
KVUsed 70
BlockSize 64
MaxRunning 8
MaxContext 2048
Running 3
Waiting 2
TransferQueue 2
`, "--enable-metrics"},
		{"vLLM without metrics", "vllm-nixl", pages{"/metrics": "process_start_time_seconds 1.79603987855e+09\n"}, `
Started 2026-11-30T11:57:58Z
`, "--disable-log-stats"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, w := known(t, tt.dialect, serve(t, tt.pages))
			before := time.Now()

			got, err := r.poll(t.Context(), w)

			off := new(MetricsOffError)
			if tt.off == "" && err != nil || tt.off != "" && (!errors.As(err, &off) || !strings.Contains(off.Error(), tt.off)) {
				t.Errorf("poll = %v, want %q", err, tt.off)
			}
			if told := "\n" + told(got); told != tt.want {
				t.Errorf("poll tells %s, want %s", told, tt.want)
			}
			if got.At.Before(before) || got.At.After(time.Now()) {
				t.Errorf("read at %s, want now", got.At)
			}
		})
	}
}

func TestPollFails(t *testing.T) {
	tests := []struct {
		name    string
		dialect string
		engine  http.Handler
		want    string
	}{
		{"a dialect that nobody reads", "other", pages{}, `dialect "other"`},
		{"vLLM without a page", "vllm-nixl", pages{}, "/metrics: not served"},
		{"an engine that asks for a key", "vllm-nixl", pages{"/metrics": "401"}, "--worker-api-key"},
		{"a page that breaks off", "vllm-nixl", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "vllm:num_requests_running 1\n")
		}), "/metrics: "},
		{"loads that are none", "sglang", pages{"/metrics": gauges, "/v1/loads": "<html>"}, "/v1/loads?include=core,disagg,queues: not the JSON"},
		{"an engine that does not answer", "sglang", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "no answer in time"},
		{"an engine that stops within a page", "vllm-nixl", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "vllm:num_requests_running 1\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}), "/metrics: no answer in time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, w := known(t, tt.dialect, serve(t, tt.engine))
			r.cfg.ProbeTimeout = 200 * time.Millisecond

			got, err := r.poll(t.Context(), w)

			if off := new(MetricsOffError); err == nil || errors.As(err, &off) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("poll = %v, want %q", err, tt.want)
			}
			if told := told(got); told != "" {
				t.Errorf("poll tells %s beside an error, want nothing", told)
			}
		})
	}
	r, w := known(t, "", "http://127.0.0.1:1")
	w.facts = nil
	if _, err := r.poll(t.Context(), w); err == nil {
		t.Error("an engine that nobody knows was asked")
	}
}

// TestPollKeepsItsConnection is about an engine not being dialled anew by
// every look at it, whatever it answers.
func TestPollKeepsItsConnection(t *testing.T) {
	for _, engine := range []pages{{"/metrics": gauges, "/v1/loads": loads}, {"/metrics": gauges}, {"/v1/loads": loads}, {}} {
		var mu sync.Mutex
		dialled := map[string]bool{}
		r, w := known(t, "sglang", serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			dialled[r.RemoteAddr] = true
			mu.Unlock()
			engine.ServeHTTP(w, r)
		})))
		for range 3 {
			_, _ = r.poll(t.Context(), w)
		}
		if st := w.Peer.Stats(); len(dialled) != 1 || st.Open != 1 || st.Idle != 1 {
			t.Errorf("three polls of %v came over %d connections, want 1; the pool holds %+v", engine, len(dialled), st)
		}
	}
}

// engine starts a simulated engine that runs until the test ends.
func engine(t *testing.T, cfg sim.Config) *sim.Engine {
	t.Helper()
	e, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return e
}

// post sends a JSON object to an engine and returns what it answers.
func post(ctx context.Context, t *testing.T, e *sim.Engine, body map[string]any) map[string]any {
	t.Helper()
	raw, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL()+"/v1/completions", strings.NewReader(string(raw)))
	if err != nil {
		t.Error(err)
		return nil
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil // the test has left
	}
	defer resp.Body.Close()
	var answer map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	return answer
}

// TestPollSim reads simulated engines while they are at work, and compares with
// what they hold.
func TestPollSim(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		cfg := sim.Config{Dialect: dialect, Role: sim.Prefill, KVTokens: 4096, BlockSize: 16, MaxRunning: 8, ContextLength: 2048}
		prefill := engine(t, cfg)
		cfg.Role = sim.Decode
		decode := engine(t, cfg)
		handOver(t, dialect, prefill, decode)
		ctx, leave := context.WithCancel(t.Context())
		var legs sync.WaitGroup
		if dialect == sim.SGLang { // two that wait for the other leg
			for room, e := range []*sim.Engine{prefill, decode} {
				legs.Go(func() { post(ctx, t, e, sglangLeg(prefill, 100+room)) })
			}
		} else { // one whose blocks nobody fetches
			post(ctx, t, prefill, vllmPrefillLeg())
		}
		for role, e := range map[string]*sim.Engine{sim.Prefill: prefill, sim.Decode: decode} {
			t.Run(dialect+" "+role, func(t *testing.T) { compare(t, dialect, role, e) })
		}
		leave()
		legs.Wait()
	}
}

const words = "the quick brown fox jumps over the lazy dog, then it does so again and again and again"

func sglangLeg(prefill *sim.Engine, room int) map[string]any {
	return map[string]any{
		"prompt": words, "max_tokens": 4, "bootstrap_host": "127.0.0.1",
		"bootstrap_port": prefill.BootstrapPort(), "bootstrap_room": room,
	}
}

func vllmPrefillLeg() map[string]any {
	return map[string]any{"prompt": words, "max_tokens": 1, "kv_transfer_params": map[string]any{"do_remote_decode": true, "do_remote_prefill": false}}
}

// handOver sends two requests with the same prompt through a pair.
func handOver(t *testing.T, dialect string, prefill, decode *sim.Engine) {
	t.Helper()
	for room := range 2 {
		if dialect == sim.SGLang {
			var first sync.WaitGroup
			first.Go(func() { post(t.Context(), t, prefill, sglangLeg(prefill, room)) })
			post(t.Context(), t, decode, sglangLeg(prefill, room))
			first.Wait()
			continue
		}
		told := post(t.Context(), t, prefill, vllmPrefillLeg())
		post(t.Context(), t, decode, map[string]any{"prompt": words, "max_tokens": 4, "kv_transfer_params": told["kv_transfer_params"]})
	}
}

// compare polls an engine until what it tells is what it holds.
func compare(t *testing.T, dialect, role string, e *sim.Engine) {
	r, w := known(t, dialect, e.URL())
	deadline := time.Now().Add(5 * time.Second)
	for {
		got, err := r.poll(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		want := held(dialect, role, e.Stats())
		got.ProcessSeconds, got.TransferSeconds, got.Started = math.NaN(), math.NaN(), time.Time{} // differ by time
		same := told(got) == told(want)
		if same && (dialect == sim.VLLMNixl || got.TransferQueue == 1) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("poll tells\n%s\nwant\n%s", told(got), told(want))
		}
	}
	got, _ := r.poll(t.Context(), w)
	if dialect == sim.VLLMNixl && (got.Started.IsZero() || time.Since(got.Started) > time.Minute) {
		t.Errorf("engine started %s, want a moment ago", got.Started)
	}
	if role == sim.Prefill && dialect == sim.VLLMNixl && got.KVUsed == 0 {
		t.Error("prefill holds no KV for decode, want some")
	}
	if role == sim.Prefill && !(got.CacheHitTokens > 0 && got.CacheQueryTokens > got.CacheHitTokens) {
		t.Errorf("%v of %v tokens hit, want some of them", got.CacheHitTokens, got.CacheQueryTokens)
	}
}

// simKVBytes is how many bytes of KV a token of a simulated engine has.
const simKVBytes = 23040

// held is the Report of an engine that holds what st says.
func held(dialect, role string, st sim.Stats) Report {
	r := unknown()
	r.KVCapacity, r.KVUsed, r.BlockSize, r.MaxContext = float64(st.CapacityTokens), float64(st.UsedTokens), float64(st.BlockSize), 2048
	r.Running, r.Waiting, r.TransferQueue = float64(st.Running), float64(st.Waiting+st.Transferring), float64(st.Transferring)
	r.CacheHitTokens, r.CacheQueryTokens = float64(st.HitTokens), float64(st.QueriedTokens)
	r.PromptTokens, r.GeneratedTokens = float64(st.PromptTokens), float64(st.GeneratedTokens)
	r.ComputedLocally = float64(st.FirstComputed)
	if role == sim.Decode || dialect == sim.VLLMNixl {
		r.GeneratedTokens = float64(st.DecodedTokens)
	}
	if dialect == sim.VLLMNixl {
		r.TransferredIn, r.Preempted = float64(st.ReceivedTokens), float64(st.Preemptions)
		r.PromptTokens = float64(st.FirstComputed + st.HitTokens + st.ReceivedTokens)
		r.TransferFailures, r.TransferExpired = float64(st.FailedTransfers), float64(st.ExpiredHolds)
		r.Transfers, r.TransferBytes = 0, 0 // of prefill: it is decode that fetches
		if role == sim.Decode {
			r.Transfers, r.TransferBytes = float64(st.Transfers), float64(st.ReceivedTokens*simKVBytes)
		}
		return r
	}
	r.MaxRunning, r.KVEvictable = 8, float64(st.IdleBlocks*st.BlockSize)
	r.TransferQueue = float64(st.Requests) - r.Running
	r.Waiting = r.TransferQueue
	if role == sim.Prefill {
		r.Transfers, r.TransferBytes = float64(st.Transfers), float64(st.PromptTokens*simKVBytes)
	} else {
		r.CacheQueryTokens, r.CacheHitTokens = 0, 0
	}
	return r
}

// BenchmarkPoll is one look at an SGLang engine with a page of 5000 lines, over
// HTTP. Its CPU is mostly the engine's, which is in this process too.
func BenchmarkPoll(b *testing.B) {
	page := longPage(b, 5000)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			w.Write(page)
			return
		}
		io.WriteString(w, loads)
	}))
	defer engine.Close()
	r, w := known(b, "sglang", engine.URL)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.poll(b.Context(), w); err != nil {
			b.Fatal(err)
		}
	}
}
