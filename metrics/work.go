package metrics

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of labels that never vary in this daemon; smg has others.
const (
	routerType = "http"
	backend    = "pd"
	connection = "http"
)

type workKey struct {
	model, endpoint, dialect string
	streaming                bool
}

// A Work counts the requests of one model, endpoint and dialect.
type Work struct {
	m               *Metrics
	model, endpoint string

	requests   prometheus.Counter
	duration   prometheus.Observer
	ttft       prometheus.Observer
	tpot       prometheus.Observer
	input      prometheus.Counter
	output     prometheus.Counter
	generation prometheus.Observer
	prefill    prometheus.Observer
	handOff    prometheus.Observer
	pdTTFT     prometheus.Observer
	mode       prometheus.Counter
	selections atomic.Pointer[[2]prometheus.Counter] // by the policies in force
	latencies  latencies
}

// Work returns the Work for a request. The model must be one that a worker
// serves, or has served (see mostModels); what has no pair yet has the dialect "".
func (m *Metrics) Work(model, endpoint, dialect string, streaming bool) *Work {
	key := workKey{model, endpoint, dialect, streaming}
	m.mu.RLock()
	w := m.works[key]
	m.mu.RUnlock()
	if w != nil {
		return w
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	model = m.models.label(model)
	key.model = model
	if w := m.works[key]; w != nil {
		return w
	}
	w = m.newWorkLocked(key)
	m.works[key] = w
	return w
}

// mostForeseen bounds the models and dialects that have series before their first
// request: some 240 each. An engine may serve hundreds of adapters that nobody
// asks for.
const mostForeseen = 16

// Serve makes the series of a model that workers serve by a dialect, so that they
// are there before its first request.
func (m *Metrics) Serve(model, dialect string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pair := [2]string{model, dialect}
	if len(m.foreseen) == mostForeseen || slices.Contains(m.foreseen, pair) {
		return
	}
	m.foreseen = append(m.foreseen, pair)
	model = m.models.label(model)
	for _, endpoint := range endpoints() {
		m.latency.bind(model, endpoint, dialect)
	}
}

// endpoints are the values of the label endpoint, of what is handed off.
func endpoints() []string { return []string{"chat", "completions", "generate"} }

func (m *Metrics) newWorkLocked(key workKey) *Work {
	model, endpoint := key.model, key.endpoint
	runtime, mode := engineOf(key.dialect)
	w := &Work{
		m:          m,
		model:      model,
		endpoint:   endpoint,
		requests:   m.routerRequests.WithLabelValues(routerType, backend, connection, model, endpoint, strconv.FormatBool(key.streaming)),
		duration:   m.routerDuration.WithLabelValues(routerType, backend, connection, model, endpoint),
		ttft:       m.ttft.WithLabelValues(routerType, backend, model, endpoint),
		tpot:       m.tpot.WithLabelValues(routerType, backend, model, endpoint),
		input:      m.tokens.WithLabelValues(routerType, backend, model, endpoint, "input"),
		output:     m.tokens.WithLabelValues(routerType, backend, model, endpoint, "output"),
		generation: m.generation.WithLabelValues(routerType, backend, model, endpoint),
		prefill:    m.pdPrefill.WithLabelValues(backend, model, runtime),
		handOff:    m.pdHandOffWait.WithLabelValues(backend, model, runtime),
		pdTTFT:     m.pdTTFT.WithLabelValues(backend, model, runtime),
		mode:       m.connectorMode.WithLabelValues(mode),
	}
	w.selections.Store(m.selectionsLocked(model))
	if key.dialect != "" {
		w.latencies = m.latency.bind(model, endpoint, key.dialect)
	}
	return w
}

// engineOf returns smg's words for a dialect: its labels runtime and mode.
func engineOf(dialect string) (runtime, mode string) {
	switch dialect {
	case "sglang":
		return "sglang", "passthrough"
	case "vllm-nixl":
		return "vllm", "nixl"
	default:
		return "unspecified", "passthrough"
	}
}

// Begun counts a request, once, before its first attempt.
func (w *Work) Begun() {
	w.requests.Inc()
	w.m.bodies.Inc()
}

// Attempted counts an attempt by its way of handing over, and the choice of its
// workers by the policies.
func (w *Work) Attempted() {
	w.mode.Inc()
	for _, s := range w.selections.Load() {
		s.Inc()
	}
}

// Sent counts a leg on its way to a worker.
func (w *Work) Sent(worker string) { w.m.sent.WithLabelValues(worker, w.model).Inc() }

// Succeeded counts a request that was answered in full after d.
func (w *Work) Succeeded(d time.Duration) {
	w.duration.Observe(d.Seconds())
	w.generation.Observe(d.Seconds())
}

// Tokens counts what engines say a request had: tokens of its prompt and of its
// answer, below 0 where they do not say. The time is that from the first token
// to the last, 0 where that is not known.
func (w *Work) Tokens(prompt, answer int64, generating time.Duration) {
	w.input.Add(float64(max(prompt, 0)))
	w.output.Add(float64(max(answer, 0)))
	if answer > 1 && generating > 0 {
		w.tpot.Observe(generating.Seconds() / float64(answer-1))
	}
}

// Failed counts a request that ended with an error of that HTTP status.
func (w *Work) Failed(status int) {
	w.m.routerErrors.WithLabelValues(routerType, backend, connection, w.model, w.endpoint, errorType(status)).Inc()
}

// errorType returns smg's word for what an HTTP status says.
func errorType(status int) string {
	switch {
	case status == 404:
		return "no_workers"
	case status == 408 || status == 504:
		return "timeout"
	case status >= 500:
		return "backend_error"
	case status == 400:
		return "validation_error"
	default:
		return "internal_error"
	}
}

// Prefilled records how long the prefill leg took that ended now, of the request
// with that id.
func (w *Work) Prefilled(now time.Time, d time.Duration, id string) {
	w.prefill.Observe(d.Seconds())
	w.latencies.prefill.observe(now, d, id)
}

// Begins records that a client is sent its first event with content now, so long
// after its request's head came.
func (w *Work) Begins(now time.Time, sinceArrival time.Duration, id string) {
	w.latencies.ttft.observe(now, sinceArrival, id)
}

// HandedOff records how long after prefill's answer decode's first event with
// content came.
func (w *Work) HandedOff(wait time.Duration) { w.latencies.handOff.Observe(max(wait, 0).Seconds()) }

// Gap records the time between two reads that brought tokens.
func (w *Work) Gap(d time.Duration) { w.latencies.gaps.Observe(d.Seconds()) }

// Decoded records the time from decode's first event with content to its last.
func (w *Work) Decoded(d time.Duration) { w.latencies.decode.Observe(d.Seconds()) }

// FirstToken records when the first token came: since the request arrived, and
// since the prefill leg was sent. In a dialect that prefills first, handOff is
// the time since prefill's answer; else it is 0 and not recorded.
func (w *Work) FirstToken(sinceArrival, sincePrefill, handOff time.Duration) {
	w.ttft.Observe(sinceArrival.Seconds())
	w.pdTTFT.Observe(sincePrefill.Seconds())
	if handOff > 0 {
		w.handOff.Observe(handOff.Seconds())
	}
}
