package main

import (
	"slices"
	"strings"
)

// A surplus is a part of smg that there is no room for here, and the flags that
// belong to it, by what follows them. Their values are not looked at.
type surplus struct {
	reason               string
	switches, ones, many string
}

// unneededSettings are accepted so that smg's command lines go on working.
func unneededSettings() []setting {
	var all []setting
	add := func(s surplus, names string, takes arity) {
		for name := range strings.FieldsSeq(names) {
			all = append(all, setting{name: name, takes: takes, standing: unneeded, reason: s.reason})
		}
	}
	for _, s := range surpluses() {
		add(s, s.switches, takesNone)
		add(s, s.ones, takesOne)
		add(s, s.many, takesMany)
	}
	return all
}

func surpluses() []surplus {
	return slices.Concat(routerSurpluses(), policySurpluses(), serviceSurpluses(), hostSurpluses())
}

// routerSurpluses are about how requests find a worker and what is done to them.
func routerSurpluses() []surplus {
	return []surplus{
		{
			reason: "only pairs of --prefill and --decode workers are routed to",
			many:   "worker-urls",
		},
		{
			reason:   "there is no encode leg; media go to the prefill worker with the request",
			switches: "epd-disaggregation",
			ones:     "encode-policy",
			many:     "encode encode-selector",
		},
		{
			reason:   "models are told apart by what the workers serve",
			switches: "enable-igw",
			ones:     "model-id-from model-alias",
		},
		{
			reason:   "the engine chooses among its data-parallel ranks",
			switches: "dp-aware dp-minimum-tokens-scheduler",
		},
		{
			reason: "a pair always has one dialect and one model",
			ones:   "pd-pairing-mode",
		},
		{
			reason:   "workers are spoken to in HTTP/1.1",
			switches: "upstream-http2",
			ones:     "zmq-engine-count kv-connector-annotation kv-engine-id-annotation",
		},
		{
			reason: "a body is always read whole before a worker is asked; --max-buffered-bytes bounds their sum",
			ones:   "max-buffered-request-bytes",
		},
		{
			reason:   "prompts go to the engines as they came; nothing is tokenized here",
			switches: "disable-tokenizer-autoload tokenizer-cache-enable-l0 tokenizer-cache-enable-l1",
			ones:     "model-path model tokenizer-path chat-template tokenizer-cache-l0-max-entries tokenizer-cache-l0-max-memory tokenizer-cache-l1-max-memory",
		},
		{
			reason: "reasoning and tool calls are the engines' to parse, and pass untouched",
			ones:   "parser reasoning-parser tool-call-parser",
		},
		{
			reason:   "media are the engines' to fetch and to process; limits on them belong there",
			switches: "mm-pixel-rdma mm-allow-private-media-hosts log-mm-timing",
			ones:     "multimodal-tensor-transport multimodal-shm-min-bytes multimodal-max-inflight-bytes mm-per-request-image-limit mm-processing mm-pixel-cache-mb mm-allowed-media-domains rdma-listen-ip rdma-slot-ttl-s",
		},
	}
}

// policySurpluses are about how a worker is chosen.
func policySurpluses() []surplus {
	return []surplus{
		{
			reason:   "a decode worker gets a request only if its KV cache has room for it, by what the router has sent there and what the engine says; what has no room waits, see docs/admission.md",
			switches: "worker-overload-protection disable-worker-overload-protection worker-overload-shed",
			ones:     "worker-overload-token-usage worker-overload-waiting-requests",
		},
		{
			reason: "the prefix index is bounded and cleaned as it is used, without these settings",
			ones:   "eviction-interval eviction-interval-secs max-tree-size block-size cache-index cache-boundaries kv-index kv-indexer-ttl-secs kv-indexer-max-entries selection-policy selection-accounting-ttl-ms",
		},
		{
			reason: "cache_aware weighs the prompt's blocks that a worker holds against its backlog, in seconds that it learns from traffic; there is nothing to tune",
			ones:   "cache-threshold cache-match-threshold balance-token-usage-threshold overload-token-usage-threshold overlap-decay selection-temperature",
		},
		{
			reason: "a block is believed to be held until it is evicted, which is learnt from what engines say they found; time alone evicts nothing",
			ones:   "cache-ttl-secs",
		},
		{
			reason: "prefix_hash goes by the first 4 KiB of the prompt, some 1000 tokens; nothing is tokenized here",
			ones:   "prefix-token-count",
		},
	}
}

// serviceSurpluses are about what smg is beside a router.
func serviceSurpluses() []surplus {
	return []surplus{
		{
			reason:   "no history is kept, of responses or of conversations",
			switches: "oracle-external-auth",
			ones: "history-backend history-memory-max-responses history-memory-max-items history-memory-retention-secs schema-config max-background-responses " +
				"oracle-wallet-path oracle-tns-alias oracle-connect-descriptor oracle-username oracle-password oracle-pool-min oracle-pool-max oracle-pool-timeout-secs " +
				"postgres-db-url postgres-pool-max postgres-op-timeout-secs redis-url redis-pool-max redis-retention-days redis-op-timeout-secs",
			many: "storage-context-headers",
		},
		{
			reason:   "no foreign code runs in the router",
			switches: "enable-wasm",
			ones:     "storage-hook-wasm-path",
		},
		{
			reason: "no tools are called on behalf of a model",
			ones:   "mcp-config-path",
		},
		{
			reason:   "engines are not controlled for training",
			switches: "enable-rl",
			ones:     "rl-control-timeout-secs rl-fanout-concurrency",
		},
		{
			reason:   "routers do not form a mesh",
			switches: "enable-mesh",
			ones:     "mesh-server-name mesh-host mesh-advertise-host mesh-port mesh-tls-ca-cert mesh-tls-cert mesh-tls-key",
			many:     "mesh-peer-urls router-selector",
		},
		{
			reason: "there is no audio or video session to carry",
			ones:   "webrtc-bind-addr webrtc-stun-server",
		},
		{
			reason:   "tenants are told apart by their API keys, and of what is scarce each gets an equal share; there are no limits of its own for one",
			switches: "trust-tenant-header tenant-rate-limit-enabled",
			ones:     "tenant-header-name tenant-rate-limit-config",
		},
		{
			reason:   "what waits is always in the order of its classes; none has slots or a queue of its own, and nothing that has begun is ended for another",
			switches: "priority-scheduler-enabled",
			ones:     "priority-scheduler-config priority-scheduler-tenant-metric-top-n",
		},
	}
}

// hostSurpluses are about how smg is operated.
func hostSurpluses() []surplus {
	return []surplus{
		{
			reason:   "the admin API has one key, --admin-api-key, or a socket with a mode; changes are logged",
			switches: "disable-audit-logging control-plane-audit-enabled",
			ones:     "jwt-issuer jwt-audience jwt-jwks-uri jwt-role-claim",
			many:     "jwt-role-mapping control-plane-api-keys",
		},
		{
			reason: "there are no control-plane jobs that could queue",
			ones:   "job-queue-capacity job-queue-concurrency",
		},
		{
			reason: "the Go runtime sizes itself (GOMAXPROCS, GOMEMLIMIT)",
			ones:   "runtime-worker-threads jemalloc-prof-dir",
		},
		{
			reason:   "engines are always asked how they are, and what they say is always exported, smg_engine_* too",
			switches: "engine-metrics",
		},
		{
			reason: "logs go to stderr, which the journal keeps",
			ones:   "log-dir",
		},
	}
}
