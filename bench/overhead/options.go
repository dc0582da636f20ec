package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// options are what may be asked for.
type options struct {
	dialect     string
	router      string        // path of the binary
	other       string        // path of another build to measure beside it; empty: none
	rounds      int           // of each workload on each system
	duration    time.Duration // of one run
	concurrency int
	streams     int      // held open for the memory figure
	only        []string // names of workloads and systems; empty: all
	rivals      string   // folder of their virtual environments; empty: none are run
	json        bool
}

func parseOptions(args []string) (options, error) {
	var o options
	var only string
	set := flag.NewFlagSet("overhead", flag.ContinueOnError)
	set.StringVar(&o.dialect, "dialect", "sglang", "how prefill hands over: sglang or vllm-nixl")
	set.StringVar(&o.router, "router", "bin/pdrouter", "the `binary` to measure; built anew if it is not there")
	set.StringVar(&o.other, "other", "", "another `binary` of the router, to measure in the same rounds")
	set.IntVar(&o.rounds, "n", 3, "rounds, of which the median counts")
	set.DurationVar(&o.duration, "duration", time.Second, "time of each run")
	set.IntVar(&o.concurrency, "c", 16, "requests at a time")
	set.IntVar(&o.streams, "streams", 1000, "streams that are held open to see the memory")
	set.StringVar(&only, "only", "", "run no other workloads or systems than these, by `name,...`: "+strings.Join(names(), ", "))
	set.StringVar(&o.rivals, "rivals", "", "other people's routers too, from their virtual environments in this `folder`, as make rivals makes them")
	set.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o, errors.Join(o.validate(), noMore(set.Args()))
}

func noMore(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

func (o options) validate() error {
	var faults []error
	if o.dialect != sglang && o.dialect != vllmNIXL {
		faults = append(faults, fmt.Errorf("-dialect %q: want %s or %s", o.dialect, sglang, vllmNIXL))
	}
	if o.rounds < 1 || o.concurrency < 1 || o.streams < 1 || o.duration <= 0 {
		faults = append(faults, errors.New("-n, -c, -streams and -duration must be above 0"))
	}
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			faults = append(faults, fmt.Errorf("-only %q: want some of %s", name, strings.Join(names(), ", ")))
		}
	}
	return errors.Join(faults...)
}

// names are what -only takes.
func names() []string {
	return append(work(), systems()...)
}

// wants reports whether -only leaves room for name, which is one of kin.
func (o options) wants(name string, kin []string) bool {
	named := slices.ContainsFunc(o.only, func(n string) bool { return slices.Contains(kin, n) })
	return !named || slices.Contains(o.only, name)
}

func (o options) wantsWorkload(w workload) bool { return o.wants(w.name, work()) }

// wantsChoosing reports whether -only leaves room for it. It has no systems.
func (o options) wantsChoosing() bool { return o.wants(choose, work()) }

// work is what is measured: the workloads, and choosing.
func work() []string {
	all := []string{choose}
	for _, w := range workloads() {
		all = append(all, w.name)
	}
	return all
}

// systems returns the systems asked for, in the order of the report.
func (o options) systems() []string {
	return slices.DeleteFunc(systems(), func(s string) bool {
		speaks, rival := rivals()[s]
		return !o.wants(s, systems()) || s == other && o.other == "" || (s == floor || s == pooled) && o.dialect != sglang || rival && (o.rivals == "" || speaks != o.dialect)
	})
}

func systems() []string {
	return append([]string{router, other, pooled, floor, twoLeg, oneLeg}, slices.Sorted(maps.Keys(rivals()))...)
}
