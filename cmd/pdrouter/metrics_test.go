package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pdrouter/sim"
)

// restGauges are what is 0 before any request and when all have ended (I8).
func restGauges() []string {
	return []string{
		"smg_http_connections_active", "smg_http_inflight_request_age_count",
		"smg_worker_requests_active", "pdrouter_lease_waiting_requests", "pdrouter_buffered_request_bytes",
	}
}

func TestMetricsOverTheListener(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: dialect})
			before := scrape(t, f.scrape.Addr().String())
			wantRest(t, before)
			wantChat(t, newClient(t), f.base, 1)
			request(t, "POST", f.base+"/v1/chat/completions", "", "{")
			var after page
			if !eventually(func() bool {
				after = scrape(t, f.scrape.Addr().String())
				return after.sum("smg_http_responses_total") == 3
			}) {
				t.Fatalf("%v answers were counted, want 3", after.sum("smg_http_responses_total"))
			}
			wantRest(t, after)
			for _, family := range []string{
				"smg_http_requests_total", "smg_http_request_duration_seconds", "smg_http_responses_total", "smg_http_rate_limit_total",
				"smg_router_requests_total", "smg_router_request_duration_seconds", "smg_router_upstream_responses_total",
				"smg_router_tokens_total", "smg_router_ttft_seconds", "smg_router_tpot_seconds", "smg_router_generation_duration_seconds",
				"smg_pd_prefill_duration_seconds", "smg_pd_ttft_seconds", "smg_pd_kv_connector_mode_total",
				"smg_worker_health", "smg_worker_pool_size", "go_goroutines", "process_cpu_seconds_total",
			} {
				if !after.has(family) {
					t.Errorf("%s has no series after traffic", family)
				}
			}
			for _, tt := range []struct {
				family string
				labels []string
				want   float64
			}{
				{"smg_http_responses_total", []string{`status_code="200"`}, 2},
				{"smg_http_responses_total", []string{`status_code="400"`, `error_code="json_parse_error"`}, 1},
				{"smg_router_requests_total", []string{`model="sim-model"`}, 2},
				{"smg_router_ttft_seconds_count", nil, 1},                        // a JSON answer comes as a whole
				{"smg_router_tokens_total", []string{`token_type="output"`}, 12}, // the stream was not asked to tell
				{"pdrouter_legs_total", []string{`outcome="ok"`}, 4},
				{"pdrouter_answer_ends_total", []string{`end="complete"`}, 2},
				{"smg_worker_health", nil, 4},
			} {
				if got := after.sum(tt.family, tt.labels...); got != tt.want {
					t.Errorf("%s%q = %v, want %v", tt.family, tt.labels, got, tt.want)
				}
			}
		})
	}
}

func wantRest(t *testing.T, p page) {
	t.Helper()
	for _, gauge := range restGauges() {
		if !p.has(gauge) || p.sum(gauge) != 0 {
			t.Errorf("%s = %v at rest, want series of 0", gauge, p.sum(gauge))
		}
	}
}

// What clients make up does not become series (BUG-088).
func TestSeriesAreBounded(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang})
	client := newClient(t)
	odd := func(from, to int) {
		for i := from; i < to; i++ {
			word := fmt.Sprint("model-", i)
			for _, r := range []struct{ method, path, body string }{
				{"POST", fmt.Sprintf("/v1/%d/chat", i), "{}"},
				{"POST", "/v1/chat/completions", `{"model":"` + word + `","messages":[]}`},
				{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"session_id":"` + word + `"}`},
				{"POST", "/generate", `{"model":"` + word + `","text":"x","rid":"` + word + `"}`},
				{fmt.Sprint("M", i), []string{"/v1/models", "/liveness", "/v1/chat/completions", "/" + word}[i%4], ""},
			} {
				req, err := http.NewRequestWithContext(t.Context(), r.method, f.base+r.path, strings.NewReader(r.body))
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"X-Request-Id", "X-SMG-Routing-Key", "X-Priority", "X-SMG-Target-Worker", "User-Agent"} {
					req.Header.Set(name, "id-"+word)
				}
				req.Header.Set("Authorization", "Bearer id-"+word)
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}
	odd(0, 8)
	if !eventually(func() bool { return scrape(t, f.scrape.Addr().String()).series(prefixHits) == 4 }) {
		t.Fatal("the engines have not been read")
	}
	few := scrape(t, f.scrape.Addr().String())
	odd(8, 408)
	many := scrape(t, f.scrape.Addr().String())
	for series := range many {
		if _, ok := few[series]; !ok && !strings.HasPrefix(series, "go_") {
			t.Errorf("series %s is new", series)
		}
		if strings.Contains(series, "model-") || strings.Contains(series, `method="M`) || strings.Contains(series, "id-") {
			t.Errorf("series %s has what a client made up", series)
		}
	}
}

// TestSeriesAreThereFromTheFirstScrape: what the router itself counts is 0 before
// anything has happened (I8).
func TestSeriesAreThereFromTheFirstScrape(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		f := newFleet(t, fleetPlan{dialect: dialect})
		model, of := `model="sim-model"`, fmt.Sprintf("dialect=%q", dialect)
		var p page
		if !eventually(func() bool { // what the engines serve is known
			p = scrape(t, f.scrape.Addr().String())
			return p.has("pdrouter_ttft_seconds")
		}) {
			t.Fatal("there is no TTFT")
		}
		for _, tt := range []struct {
			family string
			series int
			labels []string
		}{
			{"pdrouter_ttft_seconds_count", 3, []string{model}},
			{"pdrouter_inter_token_seconds_count", 3, []string{model}},
			{"pdrouter_prefill_seconds_count", 1, []string{model, of}},
			{"pdrouter_handoff_wait_seconds_count", 1, []string{model, of}},
			{"pdrouter_decode_seconds_count", 1, []string{model, of}},
			{"pdrouter_handoffs_total", 8, nil},
			{"pdrouter_client_departures_total", 5, nil},
		} {
			if n, sum := p.series(tt.family), p.sum(tt.family); n != tt.series || sum != 0 {
				t.Errorf("%s has %d series with %v in all, want %d with 0", tt.family, n, sum, tt.series)
			}
			for _, label := range tt.labels {
				if p.seriesWith(tt.family, label) != tt.series {
					t.Errorf("%s lacks %s", tt.family, label)
				}
			}
		}
	}
}

// seriesWith returns how many series of a family have that label.
func (p page) seriesWith(family, label string) int {
	n := 0
	for series := range p {
		if name, of, _ := strings.Cut(series, "{"); name == family && strings.Contains(of, label) {
			n++
		}
	}
	return n
}
