// Package exchange is one exchange with one worker: a request is written to a
// connection, the answer's head is read, and its body is handed on as it comes.
//
// It speaks HTTP/1.1 over TCP, TLS or a unix socket, and it does so without
// net/http's Transport, whose two goroutines per connection cost more than all
// else that the router does. It knows nothing of JSON, roles, dialects or
// retries, it follows no redirects, and it never sends a request twice.
//
// # Life of an exchange
//
//  1. [Peer.Do] takes the connection that was used last and looks, without
//     waiting, whether the worker has closed it or said something unasked;
//     such a connection is closed and the next is looked at. If there is none,
//     it dials.
//  2. The calling goroutine writes head and body as far as the socket takes
//     them at once. What is left, because the body is larger than what the
//     kernel holds, is written by one helper goroutine, so that
//  3. the caller is already reading: a worker that answers before it has read
//     the request is heard. Heads of 1xx are skipped. Who wants to do something
//     between writing and reading calls [Peer.Send] and [Answer.Await] instead.
//  4. The caller reads the body from the [Answer].
//  5. [Answer.Close] ends the exchange. The connection is used again only if
//     nothing is left on it in either direction.
//
// # Invariants
//
//   - A connection belongs to one exchange at a time, and an ended context
//     closes only the connection of its own exchange.
//   - io.EOF means that the body is whole, as its framing says. A body that was
//     cut short is an [Error].
//   - No goroutine outlives Do, or Send or Await, when it returns an error, or
//     else Close.
//   - What is read into memory is bounded: heads by Config.MaxHeadBytes, lines
//     of the chunked coding and trailers by 4 KiB. Bodies are not kept.
//
// # Errors
//
// An [Error] says how far the exchange had come. When the context has ended,
// the error is the context's, whatever the socket said, because the socket then
// only says that we closed it. [ErrRequest] is the caller's fault and
// [ErrTooManyConnections] our own limit; in both cases nothing was sent.
//
// # Concurrency
//
// A Peer may be used by any number of goroutines. An Answer belongs to one at a
// time; its context may end at any moment.
package exchange
