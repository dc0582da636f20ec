package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// A player plays a schedule on a fleet.
type player struct {
	fleet  *fleet
	events []event
	begun  time.Time
	faults *faults
	tally  *tally
}

// A deed is the beginning or the end of an event.
type deed struct {
	at    time.Duration
	event event
	mends bool
}

// play does all that is scheduled, in order, and returns when the last event is
// over. If ctx ends it returns at once.
func (p *player) play(ctx context.Context) {
	var deeds []deed
	for _, e := range p.events {
		deeds = append(deeds, deed{e.at, e, false}, deed{e.until, e, true})
		if e.kind == retire { // the engine is ended amid it, when its requests have had some time
			deeds = append(deeds, deed{(e.at + e.until) / 2, e, false})
		}
	}
	slices.SortStableFunc(deeds, func(a, b deed) int { return int(a.at - b.at) })
	retired := map[int]bool{} // engines that are out of the file and are to be ended next
	for _, d := range deeds {
		if !pause(ctx, time.Until(p.begun.Add(d.at))) {
			return
		}
		var err error
		switch {
		case d.mends:
			err = p.mend(ctx, d.event)
		case d.event.kind == retire && retired[d.event.engine]:
			err = p.restart(ctx, p.fleet.engines[d.event.engine], syscall.SIGTERM)
		default:
			p.tally.event(d.event.kind)
			err = p.harm(ctx, d.event)
		}
		if d.event.kind == retire {
			retired[d.event.engine] = !d.mends
		}
		if err != nil && ctx.Err() == nil {
			p.faults.add("%v: %w", d.event, err)
		}
	}
}

// harm begins an event.
func (p *player) harm(ctx context.Context, e event) error {
	if e.kind == garble {
		return p.fleet.garble(int(e.at / time.Millisecond))
	}
	engine := p.fleet.engines[e.engine]
	if err := engine.died(); err != nil {
		return err
	}
	switch e.kind {
	case kill:
		_ = engine.down(ctx, syscall.SIGKILL) // it says that it was killed
		return nil
	case freeze:
		engine.signal(syscall.SIGSTOP)
		return nil
	case fail:
		return engine.tell(ctx, e.fault)
	case remove, retire:
		return p.fleet.setTaken(e.engine, true)
	}
	return fmt.Errorf("%q is no kind of event", e.kind)
}

// mend ends an event.
func (p *player) mend(ctx context.Context, e event) error {
	if e.kind == garble {
		return p.fleet.writeFile()
	}
	engine := p.fleet.engines[e.engine]
	switch e.kind {
	case kill:
		return engine.up(ctx)
	case freeze:
		engine.signal(syscall.SIGCONT)
		return nil
	case fail:
		return engine.mend(ctx)
	}
	return p.fleet.setTaken(e.engine, false)
}

// restart ends an engine and starts it anew.
func (p *player) restart(ctx context.Context, e *engine, s syscall.Signal) error {
	if err := e.down(ctx, s); err != nil {
		return err
	}
	return e.up(ctx)
}
