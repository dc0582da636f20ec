package main

import (
	"sync"

	"pdrouter/systemd"
)

// A managerTalk keeps what the service manager is told of starts, reloads and
// stops in an order that it understands: it takes the first READY for the end of
// the start, and nothing back after STOPPING. The zero value is a daemon that
// starts.
type managerTalk struct {
	mu    sync.Mutex
	phase phase
}

// A phase is how far a daemon has come.
type phase uint8

const (
	starting phase = iota
	serving
	stopping
)

// ready tells that the start is over.
func (m *managerTalk) ready(tell func(error), status func() string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == starting {
		m.phase = serving
		tell(systemd.Ready(status()))
	}
}

// reloading tells that a reload begins. It reports false if none may, because
// the daemon stops.
func (m *managerTalk) reloading(tell func(error)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == serving {
		tell(systemd.Reloading("reloading"))
	}
	return m.phase != stopping
}

// reloaded tells that it is over.
func (m *managerTalk) reloaded(tell func(error), status func() string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == serving {
		tell(systemd.Ready(status()))
	}
}

// stop notes that the daemon stops.
func (m *managerTalk) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = stopping
}
