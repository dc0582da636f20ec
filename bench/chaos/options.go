package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"pdrouter/sim"
)

// options are what may be asked for.
type options struct {
	seed     uint64        // 0: one from the clock
	duration time.Duration // of all dialects together
	dialects []string
	clients  int
	pause    time.Duration // longest of a client between two requests
	floor    float64       // least share of good requests that must succeed amid it all
	router   string        // path of the binary; empty: built anew
	race     bool          // build it with the race detector
	logs     string        // directory for logs; empty: one that is removed if all is well
}

func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	dialects := ""
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	set.SetOutput(out)
	set.Uint64Var(&o.seed, "seed", 0, "of the schedule and the requests; 0: from the clock")
	set.DurationVar(&o.duration, "duration", 10*time.Minute, "of the chaos, all dialects together")
	set.StringVar(&dialects, "dialect", strings.Join(knownDialects(), ","), "what is run, one after the other")
	set.IntVar(&o.clients, "c", 32, "clients")
	set.DurationVar(&o.pause, "pause", 400*time.Millisecond, "longest pause of a client between two requests")
	set.Float64Var(&o.floor, "floor", defaultFloor, "least share of good requests that must succeed amid it all")
	set.StringVar(&o.router, "router", "", "the `binary` of pdrouter; built anew if not given")
	set.BoolVar(&o.race, "race", false, "build the router with the race detector")
	set.StringVar(&o.logs, "logs", "", "`directory` for the logs; else they are kept only if something was wrong")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	o.dialects = strings.Split(dialects, ",")
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano() / int64(time.Millisecond) % 1e9) // short enough to type
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return o, o.validate()
}

// defaultFloor is what a router reaches that tries again where it may, with one
// engine of three sick at any time: what fails is what had begun to stream, and
// what waited for an engine that is stopped. One that tries once reaches 0.75.
const defaultFloor = 0.9

func knownDialects() []string { return []string{sim.SGLang, sim.VLLMNixl} }

func (o options) validate() error {
	var faults []error
	for _, d := range o.dialects {
		if !slices.Contains(knownDialects(), d) {
			faults = append(faults, fmt.Errorf("-dialect %q: want some of %s", d, strings.Join(knownDialects(), ",")))
		}
	}
	if o.clients < 1 || o.duration <= 0 || o.pause < 0 || o.floor < 0 || o.floor > 1 {
		faults = append(faults, errors.New("-c and -duration must be above 0, -pause not below, -floor between 0 and 1"))
	}
	if o.race && o.router != "" {
		faults = append(faults, errors.New("-race builds the router, -router gives one: choose"))
	}
	return errors.Join(faults...)
}
