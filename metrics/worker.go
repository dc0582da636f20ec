package metrics

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// A WorkerState is one worker at the moment of a scrape. There is one for each
// role and URL.
type WorkerState struct {
	URL, Role string
	Models    []string // that it serves; none until its engine has said so
	Ready     bool     // it may take requests
	Draining  bool     // it gets no new ones, and is not to
	InFlight  int
	Most      int    // requests that it is given at a time; 0: nothing bounds them
	Polls     uint64 // how often its engine was asked how it is

	Space  Space
	Engine Engine
}

// A family of metrics has one value for each worker.
type family struct {
	name, help string
	kind       prometheus.ValueType
	value      func(w *WorkerState) float64
}

// A group is of families that have the same labels, of the same workers.
type group struct {
	labels   []string
	values   func(w *WorkerState) []string // of the labels; nil: this worker has none of these
	families []family
}

// workerGroups returns all that is told of workers.
func workerGroups(models *modelNames) []group {
	return slices.Concat(smgWorkerGroups(), spaceGroups(), engineGroups(), smgEngineGroups(models))
}

func byWorker(w *WorkerState) []string     { return []string{w.URL} }
func byWorkerRole(w *WorkerState) []string { return []string{w.URL, w.Role} }

// ofDecode returns the label worker of decode workers.
func ofDecode(w *WorkerState) []string {
	if w.Role != "decode" {
		return nil
	}
	return []string{w.URL}
}

func smgWorkerGroups() []group {
	return []group{
		{[]string{"worker"}, byWorker, []family{
			{name: "smg_worker_requests_active", help: "Requests under way per worker.", value: func(w *WorkerState) float64 { return float64(w.InFlight) }, kind: prometheus.GaugeValue},
			{name: "smg_worker_health", help: "Whether a worker may take requests (1) or not (0).", value: func(w *WorkerState) float64 { return oneIf(w.Ready) }, kind: prometheus.GaugeValue},
			{name: "smg_worker_http2", help: "Whether the router speaks HTTP/2 to the worker (1) or HTTP/1.1 (0); it speaks HTTP/1.1.", value: func(*WorkerState) float64 { return 0 }, kind: prometheus.GaugeValue},
		}},
		{[]string{"worker"}, ofDecode, []family{
			{name: "smg_pd_admission_window", help: "Requests that a decode worker is given at a time at most; 0: nothing bounds their number, only the room in its KV cache.", value: func(w *WorkerState) float64 { return float64(w.Most) }, kind: prometheus.GaugeValue},
		}},
		{[]string{"worker", "mode"}, func(w *WorkerState) []string { return []string{w.URL, "poll"} }, []family{
			{name: "smg_engine_load_polls_total", help: "Times that an engine was asked how it is.", value: func(w *WorkerState) float64 { return float64(w.Polls) }, kind: prometheus.CounterValue},
		}},
		{[]string{"worker", "role"}, byWorkerRole, []family{
			{name: "pdrouter_worker_draining", help: "Whether a worker gets no new requests because it is drained or removed (1).", value: func(w *WorkerState) float64 { return oneIf(w.Draining) }, kind: prometheus.GaugeValue},
		}},
	}
}

// unknownIf returns v, or NaN if it is said not to be known.
func unknownIf(not bool, v float64) float64 {
	if not {
		return math.NaN()
	}
	return v
}
