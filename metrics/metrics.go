package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the daemon's collectors. Make one with New and pass it down:
// nothing in this module uses the default registry.
type Metrics struct {
	httpRequests   *prometheus.CounterVec
	httpDuration   *prometheus.HistogramVec
	httpResponses  *prometheus.CounterVec
	letIn          prometheus.Counter
	turnedAway     prometheus.Counter
	routerRequests *prometheus.CounterVec
	routerDuration *prometheus.HistogramVec
	routerErrors   *prometheus.CounterVec
	upstream       *prometheus.CounterVec
	upstreamOK     prometheus.Counter // of status 200, which nearly all are
	tokens         *prometheus.CounterVec
	ttft           *prometheus.HistogramVec
	tpot           *prometheus.HistogramVec
	generation     *prometheus.HistogramVec
	pdPrefill      *prometheus.HistogramVec
	pdHandOffWait  *prometheus.HistogramVec
	pdTTFT         *prometheus.HistogramVec
	leaseWait      prometheus.Histogram
	connectorMode  *prometheus.CounterVec
	bootstrapFail  prometheus.Counter
	transferFail   prometheus.Counter

	droppedKeys  prometheus.Counter
	lateVerdicts prometheus.Counter
	orphans      prometheus.Counter
	untold       prometheus.Counter
	answerEnds   map[AnswerEnd]prometheus.Counter
	legs         *prometheus.CounterVec
	sent         *prometheus.CounterVec
	legErrors    *prometheus.CounterVec
	bodies       prometheus.Counter
	keySources   *prometheus.CounterVec
	discovery    discovery
	departures   *prometheus.CounterVec
	handOffs     *prometheus.CounterVec
	latency      latency
	selections   *prometheus.CounterVec
	prefix       prefix
	retries      retries
	admission    admission
	canaries     *prometheus.CounterVec

	models *modelNames
	fleet  *fleet // set by WatchState

	mu       sync.RWMutex // guards the following
	works    map[workKey]*Work
	policies [2]string   // of the prefill leg and the decode leg
	foreseen [][2]string // models and dialects, see Serve
}

// New registers the daemon's collectors on reg. It panics if they are
// registered twice, which is a bug in cmd.
func New(reg prometheus.Registerer, cfg Config) *Metrics {
	m := &Metrics{models: &modelNames{seen: map[string]bool{}}, works: map[workKey]*Work{}, policies: [...]string{cfg.PrefillPolicy, cfg.DecodePolicy}}
	m.makeHTTP(reg)
	m.makeRouter(reg)
	m.makePD()
	m.makeOurs(reg)
	m.makeWorkers()
	for _, h := range []struct {
		at   **prometheus.HistogramVec
		name string
		help string
		of   []string
	}{
		{&m.httpDuration, "smg_http_request_duration_seconds", "HTTP request duration by method and path, to the answer's head.", []string{"method", "path"}},
		{&m.routerDuration, "smg_router_request_duration_seconds", "Duration of routed requests that succeeded, streams to their end.", []string{"router_type", "backend_type", "connection_mode", "model", "endpoint"}},
		{&m.ttft, "smg_router_ttft_seconds", "Time from a request's arrival to its first token.", []string{"router_type", "backend_type", "model", "endpoint"}},
		{&m.tpot, "smg_router_tpot_seconds", "Time per output token after the first, of answers whose engine says how many tokens they have.", []string{"router_type", "backend_type", "model", "endpoint"}},
		{&m.generation, "smg_router_generation_duration_seconds", "Time from a request's arrival to its last token.", []string{"router_type", "backend_type", "model", "endpoint"}},
		{&m.pdPrefill, "smg_pd_prefill_duration_seconds", "Duration of the prefill leg, to the end of its answer.", []string{"backend_type", "model", "runtime"}},
		{&m.pdHandOffWait, "smg_pd_kv_transfer_duration_seconds", "Time from prefill's answer to decode's first token, in dialects that prefill first.", []string{"backend_type", "model", "runtime"}},
		{&m.pdTTFT, "smg_pd_ttft_seconds", "Time from sending the prefill leg to decode's first token.", []string{"backend_type", "model", "runtime"}},
	} {
		*h.at = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: h.name, Help: h.help, Buckets: cfg.DurationBuckets}, h.of)
		reg.MustRegister(*h.at)
	}
	reg.MustRegister(m.httpRequests, m.httpResponses, m.routerRequests, m.routerErrors, m.upstream, m.tokens,
		m.connectorMode, m.bootstrapFail, m.transferFail, m.droppedKeys, m.lateVerdicts, m.orphans, m.untold,
		m.legs, m.canaries, m.selections, m.sent, m.legErrors, m.keySources)
	m.leaseWait = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pdrouter_lease_wait_seconds", Help: "Time that requests waited for a pair, once for each attempt.", Buckets: cfg.DurationBuckets,
	})
	reg.MustRegister(m.leaseWait)
	m.prefix, m.retries, m.admission = newPrefix(reg), newRetries(reg), newAdmission(reg)
	m.latency, m.handOffs, m.departures = newLatency(reg), newHandOffs(reg), newDepartures(reg)
	m.discovery = newDiscovery(reg, cfg)
	return m
}

// Discard returns Metrics that nobody can read.
func Discard() *Metrics { return New(prometheus.NewRegistry(), DefaultConfig()) }

func (m *Metrics) makeHTTP(reg prometheus.Registerer) {
	m.httpRequests = counters("smg_http_requests_total", "HTTP requests by method and path, on arrival.", "method", "path")
	m.httpResponses = counters("smg_http_responses_total", "HTTP answers by path, status code and error code.", "path", "status_code", "error_code")
	intake := counters("smg_http_rate_limit_total", "Requests that were let in, or refused because too much is held already.", "result")
	m.letIn, m.turnedAway = intake.WithLabelValues("allowed"), intake.WithLabelValues("rejected")
	reg.MustRegister(intake)
}

func (m *Metrics) makeRouter(reg prometheus.Registerer) {
	m.routerRequests = counters("smg_router_requests_total", "Routed requests, once each, before the first attempt.",
		"router_type", "backend_type", "connection_mode", "model", "endpoint", "streaming")
	m.routerErrors = counters("smg_router_request_errors_total", "Routed requests that failed, whatever the status.",
		"router_type", "backend_type", "connection_mode", "model", "endpoint", "error_type")
	m.upstream = counters("smg_router_upstream_responses_total", "Answers of engines by status code and error code.",
		"router_type", "status_code", "error_code")
	m.upstreamOK = m.upstream.WithLabelValues(routerType, "200", "")
	m.selections = counters("smg_worker_selection_total", "Workers chosen, by role and policy, once for each leg of each attempt.",
		"worker_type", "connection_mode", "model", "policy")
	bodies := counters("smg_router_request_body_path_total", "Bodies of routed requests by whether they were read whole before a worker was chosen (buffered) and why; both legs need them, so they always are.", "path", "reason")
	m.bodies = bodies.WithLabelValues("buffered", "pd")
	reg.MustRegister(bodies)
	m.tokens = counters("smg_router_tokens_total", "Tokens of prompts (input) and answers (output), as far as engines tell them in usage.",
		"router_type", "backend_type", "model", "endpoint", "token_type")
}

func (m *Metrics) makePD() {
	m.connectorMode = counters("smg_pd_kv_connector_mode_total", "Attempts by the way in which KV is handed over.", "mode")
	m.bootstrapFail = counter("smg_pd_bootstrap_failures_total", "Request bodies into which no hand-off keys could be put.")
	m.transferFail = counter("smg_pd_kv_transfer_failures_total", "Prefill answers without the hand-off that decode needs: decode computed the prompt again.")
}

func (m *Metrics) makeWorkers() {
	m.sent = counters("smg_worker_requests_total", "Legs sent to a worker, each time that one is sent.", "worker", "model")
	m.legErrors = counters("smg_worker_errors_total", "Legs that ended with a server error of their worker or without an answer, of the leg that failed only.",
		"worker_type", "connection_mode", "error_type")
	m.keySources = counters("smg_routing_key_source_total", "Requests with a routing key, by where it was found.", "source")
	m.keySources.WithLabelValues("header")
}

func (m *Metrics) makeOurs(reg prometheus.Registerer) {
	m.droppedKeys = counter("pdrouter_client_handoff_keys_dropped_total", "Hand-off keys that clients set and that were removed.")
	m.lateVerdicts = counter("pdrouter_late_verdicts_total", "Answers let go before prefill had said that it succeeded.")
	m.orphans = counter("pdrouter_orphaned_handoffs_total", "Hand-offs that prefill had made ready and no decode worker took; the engine frees them when its lease ends.")
	m.untold = counter("pdrouter_engines_untold_total", "Legs whose engine was not told that nobody waits for it: too many ended at once.")
	ends := counters("pdrouter_answer_ends_total", "Answers that had begun, by how they ended.", "end")
	m.answerEnds = map[AnswerEnd]prometheus.Counter{}
	for _, e := range []AnswerEnd{Complete, Truncated, EngineError, EngineAbort, ClientGone} {
		m.answerEnds[e] = ends.WithLabelValues(string(e))
	}
	reg.MustRegister(ends)
	m.legs = counters("pdrouter_legs_total", "Legs by role, worker and outcome.", "role", "worker", "outcome")
	m.canaries = counters("pdrouter_canaries_total", "Requests of our own through pairs that had none, by result.", "result")
	for _, r := range []CanaryResult{CanaryOK, CanaryFailed, CanaryUnclear} {
		m.canaries.WithLabelValues(string(r))
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}
