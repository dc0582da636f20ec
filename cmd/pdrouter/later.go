package main

import (
	"cmp"
	"time"
)

// A feature is a function of later releases and the settings that it brings.
// They are typed already, so that a command line which passes now will then.
type feature struct {
	reason   string
	settings []setting
}

// laterSettings are those which are accepted, and not acted on in this release.
// Their defaults are smg's.
func laterSettings() []setting {
	var all []setting
	for _, f := range []feature{
		probes(), warmup(), kubernetesDiscovery(), keepAlive(),
	} {
		for _, s := range f.settings {
			s.standing, s.reason = later, f.reason
			s.takes = cmp.Or(s.takes, arityOf(s.value))
			all = append(all, s)
		}
	}
	return all
}

func probes() feature {
	return feature{"a worker that is sick is left out for as long as it is, and never forgotten", []setting{
		{name: "remove-unhealthy-workers", value: off(), usage: "forget workers that stay unready"},
		{name: "no-remove-unhealthy-workers", value: off(), usage: "keep them"},
		{name: "worker-auto-recovery", value: off(), usage: "the same as --remove-unhealthy-workers"},
		{name: "no-worker-auto-recovery", value: off(), usage: "the same as --no-remove-unhealthy-workers"},
		{name: "worker-startup-timeout-secs", value: seconds(1800), usage: "how long a worker may take to come up; here it is looked at for ever"},
		{name: "worker-startup-delay", value: seconds(0), usage: "wait before the first look"},
	}}
}

func warmup() feature {
	return feature{"a worker is warmed by time, see --worker-warmup-secs", []setting{
		{name: "worker-warmup-blocks", value: whole(1024), usage: "blocks after which it is warm"},
		{name: "worker-warmup-thin-ratio", value: number(0.5), usage: "share of the usual blocks below which a worker is warmed again"},
		{name: "worker-warmup-divert-every", value: whole(8), usage: "one cache hit in so many is diverted to it"},
	}}
}

func kubernetesDiscovery() feature {
	return feature{"workers come from flags and files only", []setting{
		{name: "service-discovery", value: off(), usage: "the same as --discovery-provider kubernetes"},
		{name: "service-discovery-port", value: whole(80), usage: "port of the pods"},
		{name: "service-discovery-namespace", value: text(""), usage: "namespace of the pods"},
		{name: "selector", value: texts(), usage: "labels of the pods"},
		{name: "prefill-selector", value: texts(), usage: "labels of the prefill pods"},
		{name: "decode-selector", value: texts(), usage: "labels of the decode pods"},
	}}
}

func keepAlive() feature {
	return feature{"streams carry no keep-alive comments yet", []setting{
		{name: "sse-keepalive-secs", value: seconds(15), usage: "silence after which a stream carries a comment"},
	}}
}

// The values of later settings have a home of their own.

func whole(n int) value      { return newWhole(&n) }
func number(f float64) value { return newNumber(&f) }
func text(s string) value    { return newText(&s, "text") }
func texts() value           { return newTexts(new([]string), "text...") }
func off() value             { return newSwitch(new(bool)) }

func seconds(n int) value {
	d := time.Duration(n) * time.Second
	return newSeconds(&d)
}
