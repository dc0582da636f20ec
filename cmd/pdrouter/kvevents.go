package main

import (
	"time"

	"pdrouter/metrics"
	"pdrouter/policy"
	"pdrouter/workers"

	"go.uber.org/zap"
)

// A kvRules is a setting that says whose KV events are followed.
type kvRules struct{ list[workers.KVRule] }

func newKVRules(dst *[]workers.KVRule) value {
	return &kvRules{list[workers.KVRule]{dst: dst, word: "rule", parse: workers.ParseKVRule}}
}

func (r *kvRules) plain() any {
	var texts []string
	for _, rule := range *r.dst {
		texts = append(texts, rule.String())
	}
	return texts
}

// logKVEvents logs what happened to the KV events of a worker.
func logKVEvents(log *zap.Logger, e workers.Event) {
	reason := zap.String("reason", e.Reason)
	switch e.Kind { //nolint:exhaustive // logWorker logs the others
	case workers.KVEventsFollowed:
		log.Info("KV events: following", zap.String("endpoint", e.Reason))
	case workers.KVEventsLost:
		log.Warn("KV events: some were missed, what the engine holds is estimated again", reason)
	case workers.KVEventsUnread:
		log.Warn("KV events: what the engine sends cannot be decoded", reason)
	}
}

// kvStates returns what was heard of the KV events of the workers that are to
// be followed.
func (d *daemon) kvStates(chooser workers.Chooser) []metrics.WorkerKV {
	var all []metrics.WorkerKV
	exact := map[*workers.Worker]bool{}
	if c, ok := chooser.(*policy.CacheAware); ok {
		known, _ := c.Known(time.Now())
		for _, k := range known {
			exact[k.Worker] = k.Exact
		}
	}
	seen := map[string]bool{}
	for _, s := range d.registry.Statuses() {
		if s.KV.Ranks == 0 || s.Removed || seen[s.Worker.URL] {
			continue
		}
		seen[s.Worker.URL] = true
		k := s.KV
		all = append(all, metrics.WorkerKV{Worker: s.Worker.URL, Followed: k.Followed == k.Ranks, Exact: exact[s.Worker], Counts: metrics.KVCounts{
			Stored: k.Stored, Removed: k.Removed, Cleared: k.Cleared, Ignored: k.Ignored,
			Malformed: k.Malformed, Gaps: k.Gaps, Replayed: k.Replayed, Resets: k.Resets,
		}})
	}
	return all
}
