package workers

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// lastSave bounds how long shutdown waits for the file.
const lastSave = 10 * time.Second

var errSlow = errors.New("it takes too long, and is not waited for")

// Run writes the file at each interval in which something has changed, and once
// more when ctx ends. A disk that hangs is not waited for.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.cfg.Interval)
	defer tick.Stop()
	var saves errgroup.Group // who hangs in it is left there
	saved := closed()
	save := func() {
		done := make(chan struct{})
		saved = done
		saves.Go(func() error {
			defer close(done)
			k.save()
			return nil
		})
	}
	for {
		select {
		case <-tick.C:
			select {
			case <-saved:
				save()
			default: // it is still writing
			}
			continue
		case <-ctx.Done():
		}
		enough := time.NewTimer(lastSave)
		defer enough.Stop()
		if !within(saved, enough) {
			k.tell(SnapshotEvent{File: k.cfg.File, Written: true, Err: errSlow})
		} else if save(); !within(saved, enough) {
			k.tell(SnapshotEvent{File: k.cfg.File, Written: true, Err: errSlow})
		}
		return nil
	}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// within reports whether done was closed before the timer ended.
func within(done <-chan struct{}, timer *time.Timer) bool {
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
