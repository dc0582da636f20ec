package admin

import (
	"net/http"
	"time"

	"pdrouter/metrics"
	"pdrouter/record"
	"pdrouter/workers"
)

// A Seen is where an API sees what happens in its daemon.
type Seen struct {
	Book     *record.Book
	Breakers func() metrics.Breakers
	Draining func() bool
	Started  time.Time
	Version  string
}

// A Status is the answer to GET /status: all of a daemon at one moment. What is
// not known is null.
type Status struct {
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Uptime   float64   `json:"uptime_seconds"`
	Draining bool      `json:"draining"`

	Requests RequestCounts  `json:"requests"`
	Lines    []LineInfo     `json:"lines"`
	Workers  []WorkerStatus `json:"workers"`
	Pairs    []PairStatus   `json:"pairs"` // of which the breaker is not closed
}

// RequestCounts count the requests that run.
type RequestCounts struct {
	Running int            `json:"running"`
	Phases  map[string]int `json:"phases"`
}

// A LineInfo is the requests for one model that wait for a pair.
type LineInfo struct {
	Model   string   `json:"model"`
	Waiting int      `json:"waiting"`
	Again   int      `json:"had_a_pair"` // of these
	Lacks   string   `json:"lacks"`
	Oldest  *float64 `json:"oldest_seconds"`
}

// A WorkerStatus is a worker of a Status.
type WorkerStatus struct {
	ID       string   `json:"id"`
	Role     string   `json:"role"`
	URL      string   `json:"url"`
	Models   []string `json:"models"`
	Dialect  string   `json:"dialect"`
	Status   string   `json:"status"` // as in WorkerInfo
	Reason   string   `json:"reason"` // why it is not ready
	Bars     []Bar    `json:"bars"`
	Breaker  string   `json:"breaker"` // closed, open or half_open
	InFlight int      `json:"in_flight"`
	Weight   float64  `json:"weight"`
	Running  *float64 `json:"engine_running"` // requests, as the engine said last
	Waiting  *float64 `json:"engine_waiting"`
	KV       KVInfo   `json:"kv"`
}

// A KVInfo is how full a worker's KV cache is, in tokens.
type KVInfo struct {
	Used        *float64 `json:"used_tokens"`
	Capacity    *float64 `json:"capacity_tokens"`
	Reserved    *float64 `json:"reserved_tokens"`      // what our own requests are expected to need; of decode workers
	SecondsFull *float64 `json:"seconds_to_full"`      // null also if it does not fill
	ReportAge   *float64 `json:"report_age_seconds"`   // of what the engine said last
	Unread      string   `json:"unread_report_reason"` // why the last report could not be read
}

// A PairStatus is a pair whose breaker is not closed.
type PairStatus struct {
	Prefill string `json:"prefill"`
	Decode  string `json:"decode"`
	Breaker string `json:"breaker"`
}

func (a *API) status(*http.Request, []byte) (reply, error) {
	now := time.Now()
	s := Status{
		Version: a.seen.Version, Started: a.seen.Started, Uptime: now.Sub(a.seen.Started).Seconds(), Draining: a.seen.Draining(),
		Requests: RequestCounts{Phases: map[string]int{}},
		Lines:    []LineInfo{}, Workers: []WorkerStatus{}, Pairs: []PairStatus{},
	}
	for p, n := range a.seen.Book.InPhases() {
		s.Requests.Phases[record.Phase(p).String()] = n
		s.Requests.Running += n
	}
	for _, q := range a.registry.Queues() {
		line := LineInfo{Model: q.Model, Waiting: q.Waiting, Again: q.Tried, Lacks: q.Lacks.String()}
		if !q.Oldest.IsZero() {
			line.Oldest = seconds(now.Sub(q.Oldest))
		}
		s.Lines = append(s.Lines, line)
	}
	breakers := a.seen.Breakers()
	states, ids := map[string]string{}, map[string]string{}
	for _, b := range breakers.Workers {
		states[b.Worker] = b.State.String()
	}
	for _, w := range a.registry.Statuses() {
		ids[w.Worker.URL] = w.Worker.ID
		s.Workers = append(s.Workers, workerStatus(w, states[w.Worker.URL], now))
	}
	for _, p := range breakers.Pairs {
		if p.State != metrics.BreakerClosed {
			s.Pairs = append(s.Pairs, PairStatus{ids[p.Prefill], ids[p.Decode], p.State.String()})
		}
	}
	return reply{status: http.StatusOK, body: s}, nil
}

func workerStatus(s workers.Status, breaker string, now time.Time) WorkerStatus {
	w := WorkerStatus{
		ID: s.Worker.ID, Role: s.Worker.Role.String(), URL: s.Worker.URL, Models: s.Facts.Models, Dialect: s.Facts.Dialect,
		Status: statusOf(s), Reason: s.Reason, Bars: barsOf(s), Breaker: breaker, InFlight: s.InFlight, Weight: s.Weight,
		KV: KVInfo{Unread: s.Unread},
	}
	if r := &s.Report; !r.At.IsZero() {
		w.Running, w.Waiting = known(r.Running), known(r.Waiting)
		w.KV.Used, w.KV.Capacity, w.KV.ReportAge = known(r.KVUsed), known(r.KVCapacity), seconds(now.Sub(r.At))
	}
	if k := &s.KVSpace; s.Worker.Role == workers.Decode && known(k.Capacity) != nil {
		w.KV.Used, w.KV.Capacity, w.KV.Reserved, w.KV.SecondsFull = known(k.Used), known(k.Capacity), known(k.Reserved), known(k.SecondsFull)
	}
	if w.Models == nil {
		w.Models = []string{}
	}
	if w.Bars == nil {
		w.Bars = []Bar{}
	}
	return w
}
