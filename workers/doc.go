// Package workers knows the engines: which there are, what each one is, which
// may take a request now, and how many requests each has under way.
//
// A [Registry] holds the workers of one daemon. It finds out what each engine
// is (its dialect, its models, where its bootstrap server listens) and leases
// one prefill and one decode worker at a time. Which two is decided by a
// [Chooser], that package policy implements. Nothing here reads a prompt, and
// requests themselves are sent by package router.
//
// # Life of a worker
//
// It begins unready. [Registry.Run] looks at every unready worker once per
// Config.ProbeInterval until the engine says what it is and that agrees with
// the configuration; then the worker is ready. A worker that contradicts its
// configuration stays unready and says why: in [Status.Reason] and in an
// [Event] whenever the reason changes. Engines may come late.
//
// # What engines tell
//
// An engine is asked how it is at an interval, by one goroutine
// and one connection, and what it tells becomes a [Report]. One reader for
// each kind of engine knows its pages; a table says which name means what, and
// docs/engine-metrics.md is made from it. An engine that tells little because
// of how it was started is reported with a [*MetricsOffError]; it serves
// requests all the same.
//
// # Invariants
//
//   - A worker's in-flight count is the number of its leases that are not yet
//     done. It is never negative, and zero when the daemon is idle (I8).
//   - Both leases of a pair are counted before the lock is left, so a burst
//     spreads as if it had come one by one.
//   - The two workers of a pair speak the same dialect, serve the model that
//     was asked for, and agree in page size and KV dtype where they tell.
//
// # Errors
//
// [Registry.Lease] returns [ErrUnknownModel] or a [*NoneError]. Everything else
// about a worker is told by its Status, not by an error.
//
// # Concurrency
//
// A Registry is safe for concurrent use. Leasing takes one short lock and does
// no I/O.
package workers
