package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// bench runs the whole benchmark and prints its report.
func bench(ctx context.Context, opts options) error {
	dir, err := os.MkdirTemp("", "overhead-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newStage(ctx, opts, dir)
	if err != nil {
		return err
	}
	defer s.engines.stop()
	show := progress{w: os.Stderr, rewrite: term.IsTerminal(int(os.Stderr.Fd()))}
	show.line("measuring %s", s.router)
	r := report{opts: opts, after: map[string]float64{}}
	if err := s.runRounds(ctx, &r, show); err != nil {
		return err
	}
	if err := s.runOpen(ctx, &r, show); err != nil {
		return err
	}
	if opts.wantsChoosing() {
		show.line("choosing")
		if r.choosing, err = measureChoosing(ctx, opts.rounds); err != nil {
			return err
		}
	}
	show.end()
	if opts.json {
		return r.writeJSON(os.Stdout)
	}
	return r.writeTable(os.Stdout)
}

// runRounds runs every workload on every system in each round, beginning with
// another system each time.
func (s *stage) runRounds(ctx context.Context, r *report, show progress) error {
	var running []*system
	for _, name := range s.opts.systems() {
		sys, err := s.start(ctx, name)
		if err != nil {
			return err
		}
		defer sys.stop()
		running = append(running, sys)
	}
	for round := range s.opts.rounds {
		for _, w := range workloads() {
			if w.name == held || !s.opts.wantsWorkload(w) {
				continue
			}
			taking := running
			if w.rate > 0 {
				taking = append(slices.Clip(running), &system{process: s.engines, name: direct, addr: s.decodes[0]})
			}
			for i := range taking {
				sys := taking[(round+i)%len(taking)]
				show.line("round %d of %d: %s, %s", round+1, s.opts.rounds, w.name, sys.name)
				got, err := s.measure(ctx, sys, w)
				if err := r.take(sys, w, got, err); err != nil {
					return err
				}
			}
		}
	}
	for _, sys := range running {
		now, _, err := sys.memory()
		if err != nil {
			return err
		}
		r.after[sys.name] = float64(now) / (1 << 20)
	}
	return nil
}

// take adds a sample, or says what a rival could not do; that ends no run.
func (r *report) take(sys *system, w workload, got sample, err error) error {
	if err == nil {
		r.add(sys.name, w, got)
		return nil
	}
	err = fmt.Errorf("%s on %s: %w", w.name, sys.name, err)
	if !sys.stranger {
		return err
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	r.failed = append(r.failed, line)
	return nil
}

// runOpen holds streams open on each system.
func (s *stage) runOpen(ctx context.Context, r *report, show progress) error {
	w, err := findWorkload(held)
	if err != nil || !s.opts.wantsWorkload(w) {
		return err
	}
	for _, name := range s.opts.systems() {
		show.line("%d open streams: %s", s.opts.streams, name)
		_, rival := rivals()[name]
		got, err := s.measureOpen(ctx, name, w)
		if err := r.take(&system{name: name, process: &process{stranger: rival}}, w, got, err); err != nil {
			return err
		}
	}
	return nil
}

// A progress says what is being done, on one line if that is a terminal.
type progress struct {
	w       io.Writer
	rewrite bool
}

func (p progress) line(format string, args ...any) {
	text := time.Now().Format(time.TimeOnly) + " " + fmt.Sprintf(format, args...)
	if p.rewrite {
		fmt.Fprint(p.w, "\r\x1b[K"+text)
		return
	}
	fmt.Fprintln(p.w, text)
}

func (p progress) end() {
	if p.rewrite {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
