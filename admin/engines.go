package admin

import (
	"fmt"
	"math"
	"net/http"
	"time"
)

// A Flush is the answer to POST /flush_cache.
type Flush struct {
	Status     string        `json:"status"`
	Message    string        `json:"message"`
	Flushed    int           `json:"workers_flushed"`
	HTTP       int           `json:"total_http_workers"`
	GRPC       int           `json:"total_grpc_workers"`
	ZMQ        int           `json:"total_zmq_workers_skipped"`
	Total      int           `json:"total_workers"`
	Successful []string      `json:"successful,omitempty"` // only if one failed
	Failed     []FlushFailed `json:"failed,omitempty"`
}

// A FlushFailed is a worker whose cache was not emptied, and why.
type FlushFailed struct {
	Worker string `json:"worker"`
	Error  string `json:"error"`
}

// flushCache empties the prefix cache of every engine. The router itself keeps
// no index of their caches that would have to be emptied too.
func (a *API) flushCache(r *http.Request, _ []byte) (reply, error) {
	all := a.registry.FlushCaches(r.Context())
	out := Flush{HTTP: len(all), Total: len(all)}
	for _, f := range all {
		if f.Err != nil {
			out.Failed = append(out.Failed, FlushFailed{Worker: f.Worker.URL, Error: f.Err.Error()})
		} else {
			out.Flushed++
			out.Successful = append(out.Successful, f.Worker.URL)
		}
	}
	if len(out.Failed) == 0 {
		out.Status, out.Successful = "success", nil
		out.Message = fmt.Sprintf("Successfully flushed cache on all %d workers", out.Flushed)
		return reply{status: http.StatusOK, body: out}, nil
	}
	out.Status = "partial_success"
	out.Message = fmt.Sprintf("Cache flush: %d succeeded, %d failed", out.Flushed, len(out.Failed))
	return reply{status: http.StatusPartialContent, body: out}, nil
}

// Loads is the answer to GET /get_loads. Workers is what smg answered up to
// 1.10, the rest what it has answered since.
type Loads struct {
	Workers   []WorkerLoad `json:"workers"`
	Timestamp time.Time    `json:"timestamp"`
	RankCount int          `json:"dp_rank_count"`
	Loads     []RankLoad   `json:"loads"`
	Aggregate *Aggregate   `json:"aggregate,omitempty"`
}

// A WorkerLoad is how many tokens of KV cache a worker has in use; -1 if it is
// not known.
type WorkerLoad struct {
	Worker     string      `json:"worker"`
	WorkerType string      `json:"worker_type"`
	Load       int64       `json:"load"`
	Details    *EngineLoad `json:"details,omitempty"`
}

// An Aggregate sums up Loads. Workers that do not tell a number are left out
// of it.
type Aggregate struct {
	Running float64 `json:"total_running_reqs"`
	Waiting float64 `json:"total_waiting_reqs"`
	Total   float64 `json:"total_reqs"`
	Usage   float64 `json:"avg_token_usage"`
}

// maxStale is for how long a report counts when later ones cannot be read.
const maxStale = time.Minute

// loads answers with the last reports: no engine is asked.
func (a *API) loads(_ *http.Request, _ []byte) (reply, error) {
	out := Loads{Workers: []WorkerLoad{}, Timestamp: time.Now(), Loads: []RankLoad{}}
	for _, s := range a.registry.Statuses() {
		if s.Removed {
			continue
		}
		w := WorkerLoad{Worker: s.Worker.URL, WorkerType: s.Worker.Role.String(), Load: -1}
		if s.Unread == "" || time.Since(s.Report.At) < maxStale {
			w.Details = loadOf(s.Report)
		}
		if w.Details != nil {
			out.Loads = append(out.Loads, rankOf(w))
			if used := s.Report.KVUsed; !math.IsNaN(used) {
				w.Load = int64(used)
			}
		}
		out.Workers = append(out.Workers, w)
	}
	out.RankCount, out.Aggregate = len(out.Loads), aggregate(out.Loads)
	return reply{status: http.StatusOK, body: out}, nil
}

// rankOf returns the load of a worker with its name.
func rankOf(w WorkerLoad) RankLoad {
	rank := w.Details.Loads[0]
	rank.Worker, rank.WorkerType = w.Worker, w.WorkerType
	return rank
}

func aggregate(loads []RankLoad) *Aggregate {
	if len(loads) == 0 {
		return nil
	}
	var sum Aggregate
	usages := 0
	for _, l := range loads {
		sum.Running += or0(l.Running)
		sum.Waiting += or0(l.Waiting)
		if l.Usage != nil {
			sum.Usage += *l.Usage
			usages++
		}
	}
	sum.Total = sum.Running + sum.Waiting
	sum.Usage /= float64(max(usages, 1))
	return &sum
}

func or0(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// ReadyOf counts the workers of a role that get requests.
func (l List) ReadyOf(role string) int {
	n := 0
	for _, w := range l.Workers {
		if w.WorkerType == role && w.IsHealthy {
			n++
		}
	}
	return n
}
