package main

import (
	"os"

	"pdrouter/metrics"
	"pdrouter/tracing"

	"go.uber.org/zap"
)

func (in *intake) tracingSettings() []setting {
	c := &in.cfg.Tracing
	return []setting{
		{name: "enable-trace", value: newSwitch(&c.Enabled), usage: "make OpenTelemetry spans of requests and send them; docs/tracing.md"},
		{name: "otlp-traces-endpoint", value: newText(&c.Endpoint, "address"), usage: "where to: host:port or URL of a collector; with a path, or on port 4318, OTLP over HTTP, else OTLP over gRPC"},
		{name: "trace-sample-ratio", value: newNumber(&c.Ratio), usage: "the part of the requests that are traced whose client does not decide it by a traceparent"},
	}
}

// trace has requests traced, if that is wanted.
func (d *daemon) trace() error {
	host, _ := os.Hostname() // none is none
	s := tracing.Service{Version: build().Version, Host: host, Scheme: "http"}
	if d.cfg.TLSCert != "" {
		s.Scheme = "https"
	}
	var err error
	if d.tracer, err = tracing.New(d.cfg.Tracing, s, d.logTracing); err != nil || d.tracer == nil {
		return err
	}
	d.handler.TraceWith(d.tracer)
	metrics.WatchTraces(d.collected, func() metrics.Traces { return metrics.Traces(d.tracer.Counts()) })
	return nil
}

// logTracing logs what happened to the sending of traces.
func (d *daemon) logTracing(e tracing.Event) {
	log := d.log.With(zap.String("endpoint", d.cfg.Tracing.Endpoint))
	switch e.Kind {
	case tracing.Away:
		log.Warn("traces cannot be sent: they are kept for a while and then lost, and counted in pdrouter_traces_total", zap.Error(e.Err))
	case tracing.Back:
		log.Info("traces are sent again", zap.Uint64("lost", e.Lost))
	case tracing.Crowded:
		log.Warn("more requests are traced than can be sent: some traces are dropped, and counted in pdrouter_traces_total; see --trace-sample-ratio")
	case tracing.Rejected:
		log.Warn("some spans are of no use to the collector", zap.Error(e.Err))
	}
}
