package metrics

import "github.com/prometheus/client_golang/prometheus"

// A WorkerKV is what was heard of a worker's KV events, at the moment of a
// scrape. There is none for a worker whose events are not to be followed.
type WorkerKV struct {
	Worker   string // its URL
	Followed bool   // all its data-parallel ranks are connected to
	Exact    bool   // the prefix index goes by what they tell

	Counts KVCounts
}

// KVCounts are totals since the worker was added.
type KVCounts struct {
	Stored, Removed uint64 // blocks
	Cleared         uint64 // times that the engine dropped all
	Ignored         uint64 // events that are of no concern
	Malformed       uint64 // messages that could not be read, in whole or in part
	Gaps            uint64 // times that batches were missing
	Replayed        uint64 // batches that the engine sent again
	Resets          uint64 // times that what it holds was not known any more
}

// WatchKVEvents registers what is told of KV events, read with look at scrape.
// Look is called by one goroutine at a time.
func WatchKVEvents(reg prometheus.Registerer, look func() []WorkerKV) {
	reg.MustRegister(&kvCollector{
		look:     look,
		exact:    prometheus.NewDesc("pdrouter_kv_index_exact", "Whether the prefix index is what a worker's KV events say (1), or is estimated (0).", []string{"worker"}, nil),
		followed: prometheus.NewDesc("pdrouter_kv_events_followed", "Whether a worker's KV events are listened to (1), or are to be and cannot be reached (0).", []string{"worker"}, nil),
		counts:   prometheus.NewDesc("pdrouter_kv_events_total", "What KV events said, by kind: blocks stored and removed; events cleared and ignored; messages malformed; batches replayed; gaps in their numbers; and resets, after which what the engine holds was not known.", []string{"worker", "kind"}, nil),
	})
}

type kvCollector struct {
	look func() []WorkerKV

	followed, exact, counts *prometheus.Desc
}

// Describe implements prometheus.Collector. It describes nothing: the series
// of workers come and go.
func (c *kvCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *kvCollector) Collect(out chan<- prometheus.Metric) {
	for _, w := range c.look() {
		out <- gauge(c.followed, oneIf(w.Followed), w.Worker)
		out <- gauge(c.exact, oneIf(w.Exact), w.Worker)
		for _, k := range [...]struct {
			kind  string
			count uint64
		}{
			{"stored", w.Counts.Stored},
			{"removed", w.Counts.Removed},
			{"cleared", w.Counts.Cleared},
			{"ignored", w.Counts.Ignored},
			{"malformed", w.Counts.Malformed},
			{"gap", w.Counts.Gaps},
			{"replayed", w.Counts.Replayed},
			{"reset", w.Counts.Resets},
		} {
			out <- count(c.counts, k.count, w.Worker, k.kind)
		}
	}
}
