package main

import (
	"cmp"
	"slices"

	"pdrouter/workers"
)

// The headings of --help, in the order in which it shows them.
const (
	groupWorkers   = "Workers"
	groupListeners = "Listeners"
	groupAdmin     = "Administration (workers at run time)"
	groupRouting   = "Routing"
	groupAdmission = "Admission: what waits in the router, and for how long"
	groupHealth    = "Health: breakers, probes and progress"
	groupRetries   = "Retries"
	groupTimes     = "Limits of time (seconds; fractions are allowed)"
	groupSizes     = "Limits of size (bytes)"
	groupHTTP      = "Requests"
	groupKeys      = "Keys and certificates"
	groupSeeing    = "Logs, metrics and traces"
	groupGeneral   = "General"
)

// enforcedSettings are those which this release acts on.
func (in *intake) enforcedSettings() []setting {
	var all []setting
	live := reloadable()
	for _, g := range []struct {
		name     string
		settings []setting
	}{
		{groupWorkers, in.workerSettings()},
		{groupListeners, in.listenerSettings()},
		{groupAdmin, in.adminSettings()},
		{groupRouting, in.routingSettings()},
		{groupRouting, in.snapshotSettings()},
		{groupAdmission, in.admissionSettings()},
		{groupHealth, in.healthSettings()},
		{groupRetries, in.retrySettings()},
		{groupTimes, in.timeSettings()},
		{groupSizes, in.sizeSettings()},
		{groupHTTP, in.httpSettings()},
		{groupKeys, in.keySettings()},
		{groupSeeing, in.seeingSettings()},
		{groupSeeing, in.tracingSettings()},
	} {
		for _, s := range g.settings {
			s.group = g.name
			s.takes = cmp.Or(s.takes, arityOf(s.value))
			s.reloads = slices.Contains(live, s.name)
			all = append(all, s)
		}
	}
	return all
}

func (in *intake) workerSettings() []setting {
	w := &in.cfg.Workers
	providers := []string{kubernetes, fromFile}
	return []setting{
		{name: "prefill", value: &workerList{&w.Specs, workers.Prefill}, usage: "a prefill worker and the port of its bootstrap server, which is asked for if not given; repeat for each (also URL,PORT)"},
		{name: "decode", value: &workerList{&w.Specs, workers.Decode}, usage: "a decode worker; repeat for each"},
		{name: "pd-disaggregation", value: newSwitch(&in.pairs), hint: true, usage: "route to pairs of prefill and decode workers; there is no other way here, so it may be left out"},
		{name: "dialect", value: newChoice(&w.Dialect, []string{"auto", "sglang", "vllm-nixl"}), choices: []string{"auto", "sglang", "vllm-nixl"}, usage: "how prefill hands over to decode: sglang, vllm-nixl, or auto, which asks each engine"},
		{name: "backend", value: newChoice(&in.backend, []string{"sglang", "vllm"}), choices: []string{"sglang", "vllm"}, hint: true, usage: "smg's word for --dialect: sglang, or vllm for vllm-nixl"},
		{name: "runtime", value: newChoice(&in.backend, []string{"sglang", "vllm"}), choices: []string{"sglang", "vllm"}, hint: true, usage: "the same as --backend"},
		{name: "worker-startup-check-interval", value: newSeconds(&w.ProbeInterval), usage: "seconds from one look at a worker that is not ready to the next"},
		{name: "load-monitor-interval", value: newSeconds(&w.LoadInterval), usage: "seconds from one reading of a worker's load to the next (smg: 10)"},
		{name: "disable-load-monitoring", value: newSwitch(&w.NoReports), usage: "do not read the workers' load"},
		{name: "kv-events", value: newKVRules(&w.KVEvents), takes: takesOne, usage: "whose KV events are followed: auto, the workers whose engines say where they publish; off; or WORKER_URL=tcp://HOST:PORT[,replay=tcp://HOST:PORT][,topic=TOPIC][,ranks=N] for one; repeat for several"},
		{name: "drain-settle-secs", value: newSeconds(&w.DrainSettle), usage: "seconds for which a removed worker is shown at least; its requests may take longer"},
		{name: "worker-warmup-secs", value: newSeconds(&w.WarmupTime), usage: "seconds until a worker that was added or has started anew gets its whole share of requests; 0: at once"},
		{name: "worker-warmup-share", value: newNumber(&w.WarmupShare), usage: "the part of its share that it gets at first"},
		{name: "discovery-provider", value: newChoice(&in.cfg.DiscoveryProvider, providers), choices: providers, usage: "who else tells the workers: file, or kubernetes, which is not in this release"},
		{name: "discovery-file", value: newText(&in.cfg.DiscoveryFile, "file"), usage: "YAML file with the lists prefill and decode, as in --config; it is watched, and workers come and go with it"},
		{name: "discovery-check-interval-secs", value: newSeconds(&in.cfg.DiscoveryInterval), usage: "seconds from one reading of that file to the next if nothing says that it has changed"},
	}
}

func (in *intake) listenerSettings() []setting {
	c := &in.cfg
	return []setting{
		{name: "host", value: newText(&c.Host, "address"), usage: "where clients are listened for: an address, or unix:/path of a socket, for its owner and group"},
		{name: "port", value: newWhole(&c.Port), usage: "port for clients; 0: any free one"},
		{name: "health-check-port", value: newWhole(&c.HealthCheckPort), usage: "a further port that serves only /liveness, /readiness and /health; 0: none"},
		{name: "prometheus-host", value: newText(&c.MetricsHost, "address"), usage: "where Prometheus is listened for, likewise"},
		{name: "prometheus-port", value: newWhole(&c.MetricsPort), usage: "port for /metrics; 0: any free one"},
	}
}

func (in *intake) healthSettings() []setting {
	h := &in.cfg.Health
	return []setting{
		{name: "cb-failure-threshold", value: newWhole(&h.FailureThreshold), usage: "failures in a row that open a breaker"},
		{name: "cb-failure-ratio", value: newNumber(&h.FailureRatio), usage: "the part of the outcomes that opens it, from cb-min-requests on; 0: none does"},
		{name: "cb-min-requests", value: newWhole(&h.MinRequests), usage: "the least number of outcomes of which the ratio is taken"},
		{name: "cb-window-duration-secs", value: newSeconds(&h.Window), usage: "how long an outcome counts"},
		{name: "cb-timeout-duration-secs", value: newSeconds(&h.OpenTime), usage: "how long a breaker stays open at first; twice as long each time that it opens again at once, up to 300"},
		{name: "cb-success-threshold", value: newWhole(&h.SuccessThreshold), usage: "trials in a row, one at a time, that close it again"},
		{name: "disable-circuit-breaker", value: newSwitch(&h.DisableBreakers), usage: "no breakers"},
		{name: "health-check-endpoint", value: newText(&h.ProbePath, "path"), usage: "what probes ask for"},
		{name: "health-check-interval-secs", value: newSeconds(&h.ProbeInterval), usage: "seconds from one probe of a worker to the next; one in doubt is probed each second"},
		{name: "health-check-timeout-secs", value: newSeconds(&h.ProbeTimeout), usage: "time for one probe"},
		{name: "health-failure-threshold", value: newWhole(&h.ProbeFailures), usage: "failed probes in a row after which a worker gets nothing new"},
		{name: "health-success-threshold", value: newWhole(&h.ProbeSuccesses), usage: "good probes in a row after which it does"},
		{name: "disable-health-check", value: newSwitch(&h.DisableProbes), usage: "no probes"},
		{name: "worker-stall-secs", value: newSeconds(&h.StallTime), usage: "silence of a worker after which one failed connection leaves it out; 0: never"},
		{name: "worker-wedge-secs", value: newSeconds(&h.WedgeTime), usage: "time without progress after which a worker gets nothing new; 0: never"},
		{name: "worker-stale-secs", value: newSeconds(&h.StaleTime), usage: "age of a worker's last report, and of any other sign of life, after which it gets nothing new until it is heard of; 0: never"},
		{name: "canary-interval", value: newSeconds(&h.CanaryInterval), usage: "seconds without a request after which a pair is sent one of one token, to find out whether its hand-offs work; one per interval in all; 0: none"},
	}
}

func (in *intake) retrySettings() []setting {
	r := &in.cfg.Router.Retries
	return []setting{
		{name: "retry-max-retries", value: newWhole(&r.Attempts), usage: "attempts in all, the first one included, before anything has been answered"},
		{name: "retry-initial-backoff-ms", value: newMillis(&r.Backoff), usage: "wait before the second attempt"},
		{name: "retry-backoff-multiplier", value: newNumber(&r.Multiplier), usage: "growth of the wait from one attempt to the next"},
		{name: "retry-max-backoff-ms", value: newMillis(&r.MaxBackoff), usage: "longest wait"},
		{name: "retry-jitter-factor", value: newNumber(&r.Jitter), usage: "the part of the wait that is left to chance, in both directions"},
		{name: "disable-retries", value: newSwitch(&in.tryOnce), usage: "one attempt"},
	}
}

func (in *intake) timeSettings() []setting {
	c := &in.cfg
	return []setting{
		{name: "connect-timeout-secs", value: newSeconds(&c.Exchange.ConnectTimeout), usage: "time to connect to a worker, TLS handshake included"},
		{name: "first-byte-timeout-secs", value: newSeconds(&c.Router.FirstByte), usage: "time until the first token of a stream, or until prefill has done its part of a JSON answer; long prompts take minutes"},
		{name: "stream-idle-timeout-secs", value: newSeconds(&c.Router.StreamIdle), usage: "how long a stream may be silent once it has begun"},
		{name: "request-timeout-secs", value: newSeconds(&c.Router.RequestTimeout), usage: "time for a JSON answer as a whole; streams have no such limit"},
		{name: "client-stall-secs", value: newSeconds(&c.Router.ClientStall), usage: "how long a client may take nothing of its answer before it counts as gone"},
		{name: "stream-body-stall-timeout-secs", value: newSeconds(&c.Router.BodyStall), usage: "how long a request body may make no progress"},
		{name: "header-read-timeout-secs", value: newSeconds(&c.HeaderRead), usage: "time for a client to send a request's head; 0: no limit"},
		{name: "idle-connection-timeout-secs", value: newSeconds(&c.IdleConnection), usage: "how long a client's unused connection is kept; 0: for ever"},
		{name: "upstream-pool-idle-timeout-secs", value: newSeconds(&c.Exchange.IdleTimeout), usage: "how long an unused connection to a worker is kept; stay below the engine's keep-alive of 5"},
		{name: "shutdown-grace-period-secs", value: newSeconds(&c.ShutdownGrace), usage: "how long requests may run on after SIGTERM"},
	}
}

func (in *intake) sizeSettings() []setting {
	r := &in.cfg.Router
	return []setting{
		{name: "max-payload-size", value: newWhole(&r.MaxBodyBytes), usage: "largest request body, before and after decompression; a larger one gets 413"},
		{name: "max-buffered-bytes", value: newWhole(&r.MaxBufferedBytes), usage: "request bodies held at one time; a request beyond them gets 503"},
		{name: "max-answer-size", value: newWhole(&r.MaxAnswerBytes), usage: "how much of a JSON answer is held until it is known to be whole"},
	}
}

func (in *intake) httpSettings() []setting {
	r := &in.cfg.Router
	return []setting{
		{name: "request-id-headers", value: newTexts(&r.RequestIDHeaders, "header..."), usage: "headers in which a client may name its request, in order of precedence"},
		{name: "routing-key-headers", value: newTexts(&r.RoutingKeyHeaders, "header..."), usage: "headers in which a client says which requests belong together, in order of precedence; they go up to the engines as they are"},
		{name: "cors-allowed-origins", value: newTexts(&r.CORSOrigins, "origin..."), usage: "origins that browsers may call from"},
	}
}

func (in *intake) keySettings() []setting {
	c := &in.cfg
	return []setting{
		{name: "api-key", value: newSecrets(&c.Router.APIKeys), takes: takesOne, secret: true, usage: "bearer key of which a client must send one; repeat for several; none: anybody may ask"},
		{name: "tenant-api-key", value: newTenantKeys(&in.tenantKeys), takes: takesOne, secret: true, hint: true, usage: "smg's TENANT:KEY; the key counts like --api-key, and the name for nothing"},
		{name: "worker-api-key", value: newSecret(&c.Workers.APIKey), secret: true, usage: "bearer key sent to the workers; one of its own may be given to each in the file"},
		{name: "tls-cert-path", value: newText(&c.TLSCert, "file"), usage: "certificate (PEM) for clients; none: plain HTTP"},
		{name: "tls-key-path", value: newText(&c.TLSKey, "file"), usage: "its key"},
		{name: "ca-cert-paths", value: newTexts(&c.CACertPaths, "file..."), usage: "authorities (PEM) trusted for workers, beside those of the system"},
		{name: "client-cert-path", value: newText(&c.ClientCert, "file"), usage: "certificate (PEM) that workers are shown"},
		{name: "client-key-path", value: newText(&c.ClientKey, "file"), usage: "its key"},
	}
}

func (in *intake) seeingSettings() []setting {
	c := &in.cfg
	levels := []string{"debug", "info", "warn", "error"}
	return []setting{
		{name: "log-level", value: newChoice(&c.LogLevel, levels), choices: levels, usage: "debug, info, warn or error"},
		{name: "log-format", value: newChoice(&c.LogFormat, logForms()), choices: logForms(), usage: "console, json, journal (lines with systemd's priorities), or auto: journal if that is where they go, console on a terminal, else json"},
		{name: "log-json", value: newSwitch(&c.LogJSON), usage: "the same as --log-format json"},
		{name: "prometheus-duration-buckets", value: newNumbers(&c.Metrics.DurationBuckets), usage: "bounds of the histograms of durations, in seconds, ascending"},
		{name: "prometheus-sd-file", value: newText(&c.TargetsFile, "file"), usage: "JSON file in which the engines are listed for Prometheus (file_sd_configs), written anew when workers come, go or say what they serve; none: nowhere"},
	}
}
