package admin

import (
	"math"
	"time"

	"pdrouter/workers"
)

// The statuses of a worker. All but Drained are smg's.
const (
	Pending  = "pending"   // the engine has not said what it is yet
	Ready    = "ready"     // gets requests
	NotReady = "not_ready" // was ready, and may be again
	Failed   = "failed"    // the engine does not fit its configuration
	Draining = "draining"  // gets no new requests; some are still under way
	Drained  = "drained"   // gets no new requests, and has none
)

// A WorkerInfo is a worker as the API shows it: smg's WorkerInfo, without its
// keys that have no meaning here, and Dialect, Version, Reason and Bars.
type WorkerInfo struct {
	ID             string            `json:"id"`
	ModelID        string            `json:"model_id,omitempty"` // the first of Models
	URL            string            `json:"url"`
	Models         []Model           `json:"models,omitempty"`
	WorkerType     string            `json:"worker_type"`
	ConnectionMode string            `json:"connection_mode"`
	RuntimeType    string            `json:"runtime_type"`
	Labels         map[string]string `json:"labels,omitempty"`
	Priority       uint32            `json:"priority"`
	Cost           float64           `json:"cost"`
	BootstrapPort  int               `json:"bootstrap_port,omitempty"`
	BootstrapHost  string            `json:"bootstrap_host,omitempty"`
	KVConnector    string            `json:"kv_connector,omitempty"`
	IsHealthy      bool              `json:"is_healthy"`
	Status         string            `json:"status"`
	Load           int               `json:"load"` // requests under way
	HTTP2          bool              `json:"http2"`
	EngineLoad     *EngineLoad       `json:"engine_load,omitempty"`
	Job            *Job              `json:"job_status,omitempty"`

	Dialect string `json:"dialect,omitempty"`
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty"` // why it gets no requests
	Bars    []Bar  `json:"bars,omitempty"`
}

// A Model is a name that a worker serves.
type Model struct {
	ID string `json:"id"`
}

// A Bar is why a worker that is ready gets no requests at the moment.
type Bar struct {
	Cause  string     `json:"cause"`
	Until  *time.Time `json:"until,omitempty"` // absent: until its cause is gone
	Reason string     `json:"reason,omitempty"`
}

// A Job is what is being done about a worker. One that has succeeded is gone.
type Job struct {
	Type      string  `json:"job_type"`
	WorkerURL string  `json:"worker_url"`
	Status    string  `json:"status"` // processing or failed
	Message   *string `json:"message"`
	Timestamp int64   `json:"timestamp"` // seconds since 1970
}

// info returns what there is to say of a worker.
func (a *API) info(s workers.Status) WorkerInfo {
	n := a.notes.of(s.Worker.ID)
	w := WorkerInfo{
		ID: s.Worker.ID, URL: s.Worker.URL, WorkerType: s.Worker.Role.String(),
		ConnectionMode: "http", RuntimeType: "unspecified", Labels: n.labels, Priority: n.priority, Cost: n.cost,
		BootstrapPort: max(s.Worker.BootstrapPort, 0), BootstrapHost: s.Worker.BootstrapHost,
		Status: statusOf(s), Load: s.InFlight, EngineLoad: loadOf(s.Report),
		Dialect: s.Facts.Dialect, Version: s.Facts.Version, Reason: s.Reason, Bars: barsOf(s),
		Job: jobOf(s, n),
	}
	w.IsHealthy = w.Status == Ready
	for _, m := range s.Facts.Models {
		w.Models = append(w.Models, Model{m})
	}
	if len(w.Models) > 0 {
		w.ModelID = w.Models[0].ID
	}
	if s.Worker.Role == workers.Prefill && s.Facts.BootstrapPort != 0 {
		w.BootstrapHost, w.BootstrapPort = s.Facts.BootstrapHost, s.Facts.BootstrapPort
	}
	switch s.Facts.Dialect {
	case "sglang":
		w.RuntimeType = "sglang"
	case "vllm-nixl":
		w.RuntimeType, w.KVConnector = "vllm", "NixlConnector"
	}
	return w
}

// statusOf returns the word for a worker's state.
func statusOf(s workers.Status) string {
	switch s.State {
	case workers.Draining:
		if s.InFlight > 0 || s.Removed {
			return Draining
		}
		return Drained
	case workers.Ready:
		for _, b := range s.Bars {
			if b.Cause == workers.Probing || b.Cause == workers.Stalled {
				return NotReady
			}
		}
		return Ready
	case workers.Unready:
	}
	switch {
	case s.Unfit:
		return Failed
	case s.Facts.Dialect == "":
		return Pending
	default:
		return NotReady
	}
}

// jobOf returns what is being done about a worker, if something is.
func jobOf(s workers.Status, n note) *Job {
	job := &Job{Type: "AddWorker", WorkerURL: s.Worker.URL, Status: "processing", Timestamp: n.since.Unix()}
	if s.Reason != "" {
		job.Message = &s.Reason
	}
	switch {
	case s.Removed:
		job.Type, job.Message = "RemoveWorker", nil
	case s.State != workers.Unready:
		return nil
	case s.Unfit:
		job.Status = "failed"
	case s.Facts.Dialect != "":
		return nil // it was ready: this is no registration
	}
	return job
}

func barsOf(s workers.Status) []Bar {
	var bars []Bar
	for _, b := range s.Bars {
		bar := Bar{Cause: b.Cause.String(), Reason: b.Reason}
		if b.Until.Before(workers.Forever()) {
			bar.Until = &b.Until
		}
		bars = append(bars, bar)
	}
	return bars
}

// An EngineLoad is what an engine said of itself last, in the shape of SGLang's
// /v1/loads, which smg shows too. What it did not say is absent.
type EngineLoad struct {
	Timestamp time.Time  `json:"timestamp"`
	RankCount int        `json:"dp_rank_count"` // ranks are added up, so it is 1
	Loads     []RankLoad `json:"loads"`
}

// A RankLoad is the load of one engine. Worker and WorkerType are given where
// it is not clear whose it is.
type RankLoad struct {
	Worker     string   `json:"worker,omitempty"`
	WorkerType string   `json:"worker_type,omitempty"`
	Rank       int      `json:"dp_rank"`
	Running    *float64 `json:"num_running_reqs,omitempty"`
	Waiting    *float64 `json:"num_waiting_reqs,omitempty"`
	Total      *float64 `json:"num_total_reqs,omitempty"`
	Used       *float64 `json:"num_used_tokens,omitempty"`
	Capacity   *float64 `json:"max_total_num_tokens,omitempty"`
	Usage      *float64 `json:"token_usage,omitempty"`
	MaxRunning *float64 `json:"max_running_requests,omitempty"`
}

// loadOf returns the load in a report; nil if none was read.
func loadOf(r workers.Report) *EngineLoad {
	if r.At.IsZero() {
		return nil
	}
	return &EngineLoad{Timestamp: r.At, RankCount: 1, Loads: []RankLoad{{
		Running: known(r.Running), Waiting: known(r.Waiting), Total: known(r.Running + r.Waiting),
		Used: known(r.KVUsed), Capacity: known(r.KVCapacity), Usage: known(r.KVUsed / r.KVCapacity), MaxRunning: known(r.MaxRunning),
	}}}
}

// known returns a number, if it is one.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
