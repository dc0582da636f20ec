package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// A Space is how full a worker's KV cache is at the moment of a scrape, in
// tokens. What is not known is NaN, never 0 (I8).
type Space struct {
	Capacity float64
	Used     float64
	Reserved float64 // of decode workers: the most that our own requests are expected to need
	Drift    float64 // of decode workers: what the last report had beyond what we knew of, as a share of Capacity

	SecondsFull float64 // until it is full, if it goes on like this; +Inf: it does not fill
	ReportAge   float64 // seconds since the engine's last report
}

// UnknownSpace returns the Space of a worker of which nothing is known.
func UnknownSpace() Space {
	nan := math.NaN()
	return Space{nan, nan, nan, nan, nan, nan}
}

func spaceGroups() []group {
	g := group{labels: []string{"worker", "role"}, values: byWorkerRole}
	for _, f := range [...]struct {
		name, help string
		value      func(s *Space) float64
	}{
		{"capacity_tokens", "Tokens that a worker's KV cache holds, as its engine says.", func(s *Space) float64 { return s.Capacity }},
		{"used_tokens", "Tokens of it in use now: what the engine said last, and what it was sent and has ended since.", func(s *Space) float64 { return s.Used }},
		{"usage_ratio", "The same as a share of the capacity.", func(s *Space) float64 { return ratio(s.Used, s.Capacity) }},
		{"reserved_tokens", "Tokens that the requests which the router has there are expected to need at the most.", func(s *Space) float64 { return s.Reserved }},
		{"seconds_to_full", "Seconds until it is full if it goes on like this; +Inf: it does not fill.", func(s *Space) float64 { return s.SecondsFull }},
		{"report_age_seconds", "Age of the engine's last report.", func(s *Space) float64 { return s.ReportAge }},
		{"ledger_drift_ratio", "What the last report had beyond what the router knew of, as a share of the capacity: requests of others, and wrong estimates.", func(s *Space) float64 { return s.Drift }},
	} {
		g.families = append(g.families, family{
			name: "pdrouter_worker_kv_" + f.name, help: f.help, kind: prometheus.GaugeValue,
			value: func(w *WorkerState) float64 { return f.value(&w.Space) },
		})
	}
	return []group{g}
}
