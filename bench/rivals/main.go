package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1) //nolint:forbidigo // func main exits
	}
}

// The parts, by their names in -only.
const (
	partOverhead = "overhead"
	partFaults   = "faults"
	partRouting  = "routing"
)

// options are what may be asked for.
type options struct {
	only     []string
	rounds   int
	duration time.Duration // of each run of the overhead
	slice    time.Duration // of the trace
	page     string        // file
	json     string        // file
	brief    bool
	dir      string // of the virtual environments
	router   string // our binary
}

func parseOptions(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("rivals", flag.ContinueOnError)
	only := set.String("only", "overhead,faults,routing", "the `parts` to run; the others stand on the page as they were")
	set.IntVar(&o.rounds, "rounds", 3, "rounds of the overhead and of the routing, of which the median counts")
	set.DurationVar(&o.duration, "duration", time.Second, "time of each run of the overhead")
	set.DurationVar(&o.slice, "slice", 300*time.Second, "how much of the trace is sent")
	set.StringVar(&o.page, "page", "docs/benchmarks.md", "the `file` that the page is written to")
	set.StringVar(&o.json, "json", ".cache/rivals/results.json", "the `file` that keeps all figures")
	set.StringVar(&o.dir, "dir", ".cache/rivals", "the `folder` of the virtual environments")
	set.StringVar(&o.router, "router", "bin/pdrouter", "our `binary`")
	set.BoolVar(&o.brief, "brief", false, "one round, half a second for each run of the overhead, a minute of the trace: to see that all works")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	for part := range strings.SplitSeq(*only, ",") {
		if !slices.Contains([]string{partOverhead, partFaults, partRouting}, part) {
			return o, fmt.Errorf("-only %q: want some of overhead, faults, routing", part)
		}
		o.only = append(o.only, part)
	}
	if o.rounds < 1 || o.duration <= 0 || o.slice <= 0 {
		return o, errors.New("-rounds, -duration and -slice must be above 0")
	}
	if o.brief {
		o.rounds, o.duration, o.slice = 1, 500*time.Millisecond, time.Minute
	}
	var err error
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return o, err
	}
	o.router, err = filepath.Abs(o.router)
	return o, err
}

// run runs the parts asked for and writes the page.
func run(ctx context.Context, args []string) error {
	opts, err := parseOptions(args)
	if err != nil {
		return err
	}
	if err := install(ctx, opts.dir); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "rivals-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b := &bench{opts: opts, tmp: tmp}
	all, err := load(opts.json)
	if err != nil {
		return err
	}
	for _, part := range opts.only {
		began, before := time.Now(), look()
		if err := b.runPart(ctx, part, all); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		all.When[part] = began.UTC().Format("2006-01-02 15:04 UTC")
		all.Commands[part] = command(args)
		all.Machine, all.Loads[part] = before, before.Load
		if err := all.save(opts.json); err != nil {
			return err
		}
		if err := writePage(opts.page, all); err != nil {
			return err
		}
	}
	return nil
}

// command is how it was started.
func command(args []string) string {
	if len(args) == 0 {
		return "make rivals"
	}
	return "make rivals ARGS='" + strings.Join(args, " ") + "'"
}

// A bench is what all parts need.
type bench struct {
	opts options
	tmp  string // folder for binaries and logs
}

func (b *bench) runPart(ctx context.Context, part string, all *results) error {
	var err error
	switch part {
	case partOverhead:
		all.Overhead, err = b.overhead(ctx)
	case partFaults:
		all.Faults, err = b.faults(ctx)
	case partRouting:
		all.Routing, err = b.routing(ctx)
	}
	return err
}

// say shows progress.
func say(format string, args ...any) {
	fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
