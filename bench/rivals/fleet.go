package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"pdrouter/sim"
)

// A fleet is simulated engines of this process.
type fleet struct {
	dialect           string
	prefills, decodes []*sim.Engine
	end               context.CancelFunc
	running           errgroup.Group
}

// A size is how many engines there are of either role.
type size struct{ prefills, decodes int }

// pairs is the size of the fleet whose engines fail.
func pairs() size { return size{2, 2} }

// newFleet runs a fleet until stop. tune may change what the engines are like.
func newFleet(ctx context.Context, dialect string, n size, tune func(*sim.Config)) (*fleet, error) {
	f := &fleet{dialect: dialect}
	ctx, f.end = context.WithCancel(ctx)
	for i := range n.prefills + n.decodes {
		cfg := sim.DefaultConfig()
		cfg.Dialect, cfg.Role = dialect, sim.Prefill
		cfg.DisconnectDelay = 10 * time.Millisecond // so that what is measured is the router's
		if i >= n.prefills {
			cfg.Role = sim.Decode
		}
		if tune != nil {
			tune(&cfg)
		}
		e, err := sim.New(cfg)
		if err != nil {
			f.stop()
			return nil, err
		}
		if i < n.prefills {
			f.prefills = append(f.prefills, e)
		} else {
			f.decodes = append(f.decodes, e)
		}
		f.running.Go(func() error { return e.Run(ctx) })
	}
	return f, nil
}

func (f *fleet) stop() {
	f.end()
	_ = f.running.Wait() // they were told to end
}

func (f *fleet) all() []*sim.Engine { return append(slices.Clip(f.prefills), f.decodes...) }

// fail makes engines fail.
func fail(engines []*sim.Engine, fault sim.Fault) {
	for _, e := range engines {
		e.Fail(fault)
	}
}

// heal makes all engines work again.
func (f *fleet) heal() {
	for _, e := range f.all() {
		e.ClearFaults()
	}
}

// atRest reports whether no engine has a request.
func (f *fleet) atRest() bool {
	for _, e := range f.all() {
		if s := e.Stats(); s.Running+s.Waiting+s.Transferring > 0 {
			return false
		}
	}
	return true
}

// flags are how a router is told of the fleet.
func (f *fleet) flags() []string {
	var flags []string
	for _, e := range f.prefills {
		flags = append(flags, "--prefill", e.URL())
		if f.dialect == sim.SGLang {
			flags = append(flags, fmt.Sprint(e.BootstrapPort()))
		}
	}
	for _, e := range f.decodes {
		flags = append(flags, "--decode", e.URL())
	}
	return flags
}
