package main

import (
	"errors"

	"pdrouter/router"
)

func (in *intake) admissionSettings() []setting {
	a := &in.cfg.Workers.Admission
	classes := router.ClassNames()
	return []setting{
		{name: "max-concurrent-requests", value: newBound(&a.MaxInFlight), usage: "requests on engines at one time; 0 or -1: any number"},
		{name: "rate-limit-tokens-per-second", value: newRate(&a.Rate), usage: "requests begun in a second (smg calls them tokens), and as many at once; 0: any number, also with --max-concurrent-requests (smg: as many as that)"},
		{name: "queue-size", value: newWhole(&a.QueueSize), usage: "requests for one model that may wait (smg: 100); 0: none, what cannot begin at once gets 429"},
		{name: "queue-timeout-secs", value: newSeconds(&a.QueueTimeout), usage: "how long they may wait; then they get 503"},
		{name: "prefill-max-inflight-requests-per-worker", value: newBound(&a.PrefillMaxInFlight), usage: "requests on one prefill worker at one time; 0 or -1: any number"},
		{name: "prefill-queue-size", value: newWhole(&a.PrefillQueueSize), usage: "requests that may wait for prefill, if the flag above bounds it"},
		{name: "prefill-queue-timeout-secs", value: newSeconds(&a.PrefillQueueTimeout), usage: "how long they may wait then"},
		{name: "pd-admission-wait-secs", value: newSeconds(&a.DecodeWait), usage: "how long a request may wait for room on a decode worker (smg: 30)"},
		{name: "priority-scheduler-default-max-class", value: newChoice(&in.cfg.Router.MaxClass, classes), choices: classes, usage: "the highest class that a request gets, whatever it claims (smg: default)"},
	}
}

// newBound takes -1 for none, as smg does, beside 0.
func newBound(dst *int) value {
	return &scalar[int]{dst: dst, word: "int", parse: func(text string) (int, error) {
		n, err := parseWhole[int](text)
		if err == nil && n < -1 {
			err = errors.New("below -1, which is none")
		}
		return max(n, 0), err
	}}
}

// newRate is newBound for a number of something in a second.
func newRate(dst *float64) value {
	return &scalar[float64]{dst: dst, word: "number", parse: func(text string) (float64, error) {
		f, err := parseNumber(text)
		if err == nil && f < 0 && f != -1 {
			err = errors.New("below 0, and not -1, which is none")
		}
		return max(f, 0), err
	}}
}
