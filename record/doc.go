// Package record keeps what happened to each request: one that runs, and the
// last ones that have ended. It judges nothing, counts nothing and writes
// nothing out; logs, tracing and the admin API read it.
//
// # Life of a record
//
// [Book.Begin] opens one as a request's head comes. Whoever runs the request
// tells it of each phase as it is reached, of each attempt with its pair, and of
// each read that brought tokens. [Book.End] closes it: the last ones are kept in
// a ring, whose oldest record is the memory of a new one, so that a request costs
// no allocation.
//
// # Units
//
// Times are those of the wall clock with Go's monotonic part; a zero Time has not
// come. Tokens are what engines said of a request, -1 where they did not.
//
// # Concurrency
//
// A [Book] and its records are safe for concurrent use: both legs of a request
// write to its record while others read it. A [View] is a copy, and its reader's
// own. No lock is held for longer than it takes to copy one record, or to list all
// of them.
package record
