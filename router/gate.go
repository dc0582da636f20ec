package router

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxHold and maxWait bound how much of decode's answer, and how long,
	// waits for prefill's verdict. Real engines give it in the same hundredth
	// of a second in which decode's first event comes.
	maxHold = 256 << 10

	// minHold is room for what an engine sends before prefill's verdict comes:
	// a role and some tokens.
	minHold = 4 << 10
	maxWait = 2 * time.Second
)

// errShut reports that the attempt has failed and nothing more may be sent.
var errShut = errors.New("attempt has failed")

// A gate holds a stream back until it is known to be an answer: decode has sent
// an event that commits, and prefill has said that it succeeded. Then it opens,
// the status line is spent, and what was held goes to the client; from then on
// everything passes at once.
//
// Decode's goroutine calls pass, prefill's calls approve, and either calls shut
// when the attempt fails: whoever completes the condition does the sending.
type gate struct {
	to *client // where the stream goes
	of opener

	memory *buffers // where to hold things

	state atomic.Uint32 // gateHolding, then one of the others for good

	mu       sync.Mutex // guards the following, and is held while a stream is sent
	held     []byte
	commits  bool        // decode has sent an event that commits
	approved bool        // prefill has succeeded
	err      error       // what sending returned when the gate opened
	timer    *time.Timer // opens the gate without a verdict
}

// An opener is whose stream it is. The gate calls it when it opens.
type opener interface {
	beginStream() // sets the head of the answer
	verdictLate() // it opens without a verdict
}

// The states of a gate.
const (
	gateHolding uint32 = iota
	gateOpen
	gateClosed
)

// pass sends p, or holds a copy of it while the gate is not open. If commits,
// p has an event that makes the answer an answer.
func (g *gate) pass(p []byte, commits bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state.Load() {
	case gateClosed:
		return errShut
	case gateOpen:
		return g.to.send(p)
	}
	g.commits = g.commits || commits
	if g.commits && g.approved && len(g.held) == 0 {
		return g.openLocked(p)
	}
	if g.held == nil {
		g.held = g.memory.take(minHold)
	}
	g.held = g.memory.extend(g.held, p)
	switch {
	case g.commits && g.approved:
		return g.openLocked(g.held)
	case len(g.held) > maxHold:
		return g.openLateLocked()
	case g.commits && g.timer == nil:
		g.timer = time.AfterFunc(maxWait, g.overdue)
	}
	return g.err
}

// approve says that prefill succeeded.
func (g *gate) approve() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.approved = true
	if g.commits && g.state.Load() == gateHolding {
		g.err = g.openLocked(g.held)
	}
}

// opened reports whether the stream is on its way to the client.
func (g *gate) opened() bool { return g.state.Load() == gateOpen }

// shut closes a gate that has not opened, for good: the attempt has failed. It
// reports whether the gate has opened; then it does nothing, and above all does
// not wait for a client that takes nothing.
func (g *gate) shut() (opened bool) {
	if !g.state.CompareAndSwap(gateHolding, gateClosed) {
		return g.opened()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	return false
}

// overdue opens the gate without a verdict, if there is anything to let go.
func (g *gate) overdue() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.commits && g.state.Load() == gateHolding {
		g.err = g.openLateLocked()
	}
}

func (g *gate) openLateLocked() error {
	if !g.approved {
		g.of.verdictLate()
	}
	return g.openLocked(g.held)
}

func (g *gate) openLocked(first []byte) error {
	if g.timer != nil {
		g.timer.Stop()
	}
	if !g.state.CompareAndSwap(gateHolding, gateOpen) {
		return errShut
	}
	g.of.beginStream()
	err := g.to.sendFirst(first)
	if err == nil {
		g.memory.put(g.held)
	}
	g.held = nil
	return err
}
