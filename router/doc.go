// Package router is the client's side of the daemon: it takes a request, runs
// it on one prefill and one decode worker, and relays the answer. It does not
// judge the health of workers, and it does not choose them.
//
// # Life of a request
//
//  1. The body is read, up to Config.MaxBodyBytes, and scanned once. What no
//     pair could serve ends here, before any worker is touched.
//  2. Its class, tenant and size are noted, and the registry leases a pair, for
//     which the request may have to wait.
//  3. An attempt is made: hand-off keys are minted for it alone, the dialect
//     writes the two legs, and they are sent, both at once or prefill first.
//  4. Prefill's verdict is its whole answer. Decode's answer is held: as JSON
//     until it is whole and valid, as a stream until an event commits (content,
//     a tool call, a finish reason), and both until the verdict is in.
//  5. The answer is relayed: as it is, in whole events, flushed once per read.
//  6. Each leg ends its lease, once, with what it says about its worker.
//     Engines that must be told that nobody waits any more are told.
//
// # Invariants
//
// I1 to I10 of ARCHITECTURE.md. Here live I3, one fate: the first real failure
// of either leg, or the client's leaving, ends both at once and decides the
// outcome; and I4: once the status line is spent nothing is tried again, and
// what breaks a stream is told in a last event without [DONE].
//
// # Errors
//
// Handlers return errors; answering answers and logs them, in one place. What
// the client sees is an [Error]: it never names a worker, a room or a Go error.
// An engine's own 4xx is relayed byte for byte.
//
// # Concurrency
//
// A [Handler] is safe for concurrent use. A request's own goroutine runs the
// decode leg; in a concurrent dialect one more runs the prefill leg, and has
// ended when ServeHTTP returns. What engines are told after that is waited for
// by [Handler.Wait].
package router
