package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// waitLook is the time between two looks at what is waited for.
	waitLook = 250 * time.Millisecond

	// waitTell is the time from one line to the next where nothing can be drawn.
	waitTell = 5 * time.Second

	// waitBar is how long the bar of a wait is, in columns.
	waitBar = 20
)

// A progress is how far something is that is waited for.
type progress struct {
	done  bool
	share float64 // 0 to 1; below 0: nobody can tell
	text  string
}

// await looks again and again until what name stands for is done. A terminal shows
// meanwhile how far it is; into a pipe goes a line now and then.
func (s *screen) await(ctx context.Context, name string, look func(context.Context) (progress, error)) error {
	now, err := look(ctx)
	if err != nil || now.done {
		return err
	}
	began := time.Now()
	told := began
	var shown atomic.Pointer[progress]
	shown.Store(&now)
	stop := s.move(func(int) string { return s.waitRow(name, *shown.Load(), time.Since(began)) })
	defer stop(false)
	tick := time.NewTicker(waitLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		next, err := look(ctx)
		if err != nil || next.done {
			return err
		}
		shown.Store(&next)
		if !s.terminal && time.Since(told) >= waitTell {
			told = time.Now()
			s.say("%s", s.waitRow(name, next, time.Since(began)))
		}
	}
}

// waitRow is one line of a wait.
func (s *screen) waitRow(name string, p progress, since time.Duration) string {
	bar := ""
	if p.share >= 0 && s.terminal {
		bar = s.bar(waitBar, fill{p.share, "█", green}) + "  "
	}
	return fmt.Sprintf("%s  %s%s, %s", name, bar, p.text, since.Round(time.Second))
}
