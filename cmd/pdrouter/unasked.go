package main

import (
	"net"
	"net/http"
	"sync"
)

// unasked are the connections of a server on which no request has come yet, such
// as clients open ahead. http.Server.Shutdown waits five seconds for each of
// them, and would then answer none: a request that comes on one is dropped.
//
// The zero value is ready to use.
type unasked struct {
	mu     sync.Mutex // guards the following
	conns  map[net.Conn]struct{}
	closed bool
	open   int // connections in all
}

// count returns how many connections are open, with and without a request.
func (s *unasked) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// note is the server's ConnState.
func (s *unasked) note(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.open++
	case http.StateClosed, http.StateHijacked:
		s.open--
	case http.StateActive, http.StateIdle:
	}
	switch {
	case state != http.StateNew:
		delete(s.conns, conn)
	case s.closed: // accepted just before the listener was closed
		_ = conn.Close()
	case s.conns == nil:
		s.conns = map[net.Conn]struct{}{conn: {}}
	default:
		s.conns[conn] = struct{}{}
	}
}

// close closes them all, and those that still come.
func (s *unasked) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
}
