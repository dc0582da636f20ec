package metrics

import "github.com/prometheus/client_golang/prometheus"

// A Learnt is what cache_aware has learnt, at the moment of a scrape. A number
// that is not known yet is NaN (I8).
type Learnt struct {
	BytesPerToken float64 // of prompts
	Workers       []LearntWorker
}

// A LearntWorker is what it has learnt of one worker.
type LearntWorker struct {
	Worker, Role string

	Blocks int     // believed to be in its cache
	Keeps  int     // the most that are believed to be
	Kept   float64 // that, as a part of what its KV pool holds

	// Of prefill workers only.

	LegSeconds   float64 // for a leg, whatever its prompt
	TokenSeconds float64 // and for each token that is not cached
	Backlog      float64 // seconds until it has nothing to do
	Foreign      float64 // requests that others have there
}

// WatchLearnt registers what is told of what was learnt, read with look at
// scrape. Look is called by one goroutine at a time.
func WatchLearnt(reg prometheus.Registerer, look func() Learnt) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pdrouter_policy_"+name, help, labels, nil)
	}
	reg.MustRegister(&learntCollector{
		look:    look,
		bytes:   desc("bytes_per_token", "Bytes of prompt for each token, as learnt from what engines say of prompts."),
		blocks:  desc("index_blocks", "Blocks of prompts that a worker is believed to hold: entries of the prefix index.", "worker", "role"),
		keeps:   desc("index_blocks_limit", "Blocks that a worker is believed to keep at most.", "worker", "role"),
		kept:    desc("kept_ratio", "The part of what fits a worker's KV pool that it is believed to keep.", "worker", "role"),
		leg:     desc("prefill_leg_seconds", "Time that a prefill worker takes for a leg, whatever its prompt.", "worker"),
		token:   desc("prefill_token_seconds", "Time that a prefill worker takes for each token that is not cached.", "worker"),
		backlog: desc("prefill_backlog_seconds", "Time until a prefill worker is expected to have nothing to do.", "worker"),
		foreign: desc("foreign_requests", "Requests that others than this router are believed to have on a prefill worker.", "worker"),
	})
}

type learntCollector struct {
	look func() Learnt

	bytes, blocks, keeps, kept, leg, token, backlog, foreign *prometheus.Desc
}

// Describe implements prometheus.Collector. It describes nothing: the series
// of workers come and go.
func (c *learntCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *learntCollector) Collect(out chan<- prometheus.Metric) {
	all := c.look()
	out <- gauge(c.bytes, all.BytesPerToken)
	for _, w := range all.Workers {
		out <- gauge(c.blocks, float64(w.Blocks), w.Worker, w.Role)
		out <- gauge(c.keeps, float64(w.Keeps), w.Worker, w.Role)
		out <- gauge(c.kept, w.Kept, w.Worker, w.Role)
		if w.Role == "prefill" {
			out <- gauge(c.leg, w.LegSeconds, w.Worker)
			out <- gauge(c.token, w.TokenSeconds, w.Worker)
			out <- gauge(c.backlog, w.Backlog, w.Worker)
			out <- gauge(c.foreign, w.Foreign, w.Worker)
		}
	}
}
