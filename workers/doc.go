// Package workers knows the engines: which there are, what each one is, which
// may take a request now, and how many requests each has under way.
//
// A [Registry] holds the workers of one daemon. It finds out what each engine
// is (its dialect, its models, where its bootstrap server listens), reads how it
// is, and leases one prefill and one decode worker at a time. Which two is
// decided by a [Chooser], that package policy implements; who may be leased at
// all also by a [Judge], that package health implements. Nothing here reads a
// prompt, and requests themselves are sent by package router.
//
// # Life of a worker
//
// It begins unready. [Registry.Run] looks at every unready worker once per
// Config.ProbeInterval until the engine says what it is and that agrees with
// the configuration; then the worker is ready, and its reports are read once
// per Config.LoadInterval. A worker that contradicts its configuration stays
// unready and says why: in [Status.Reason] and in an [Event] whenever the
// reason changes. Engines may come late.
//
// A ready worker whose engine fails stays ready: that is for the Judge to see,
// who puts a bar on it ([Registry.Bar]), or on a pair ([Registry.BarPair]), for
// a time and a cause. One that has started anew is looked at again before it
// gets requests ([Registry.Recheck]), and at first gets fewer than the others.
//
// A worker that drains gets no new requests. One that was removed gets none
// either, and is forgotten when its last lease has ended. Its ID is never used
// again; a worker of the same URL that is added later is another one.
//
// # Life of a lease
//
// [Registry.Lease] stands in the line of the model until [Admission] lets it go:
// by class, then by the tenant that was served least, then as a [Planner] says.
// Who comes when too many wait, or waits too long, makes for a [*ShedError].
// Then it takes the pools of the model, leaves out who is barred and,
// as long as there is something else, who is to be avoided, and lets the Chooser
// pick. Both leases are counted before the lock is left. Then the Judge is asked
// for its permit: what it refuses is given back, and another pair is picked.
// When no pair is left, Lease waits if one would be free but for backpressure;
// else it returns at once and says when to come again. [Registry.LeasePair] does
// the same for two workers that are named.
//
// # Space
//
// A decode worker has a ledger: how full its KV cache is by its last report and
// by what its leases took and gave back since, how full it will be when answers
// grow as answers have, and how much is left for others who use the engine. A
// lease is granted only where there is a place and space ([Load.HasRoom]). The
// ledger is told by [Lease.Sent], [Lease.Computed], [Lease.Began],
// [Lease.Answering], [Lease.Generated] and [Lease.Done]; [Status] has what it
// knows. Without reports of the KV cache requests are counted instead.
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
// One that publishes its KV events is listened to besides, by one goroutine for
// each of its data-parallel ranks, and the Chooser is told, if it is a [KVSink].
// That events are followed, missed or malformed is an [Event]; how many there
// were is in [Status].
//
// # What outlives the router
//
// A [Keeper] writes down what the Chooser knows, if that is a [Rememberer], and
// at the next start lets it know again. Of a worker only once it has told who it
// is: an engine that was started anew meanwhile holds nothing (identity). The
// format is described in snapshotformat.go. Whatever is wrong with the file is
// told and costs no more than what is in it.
//
// # Invariants
//
//   - A worker's in-flight count is the number of its leases that are not yet
//     done. It is never negative, and zero when the daemon is idle (I8).
//   - Both leases of a pair are counted before the lock is left, so a burst
//     spreads as if it had come one by one.
//   - The two workers of a pair speak the same dialect, serve the model that
//     was asked for, and agree in page size and KV dtype where they tell. One
//     that does not tell is taken to be like the others if these are all alike,
//     and is paired with nobody who tells if they are not. What keeps two apart
//     is an [Event], and part of the [NoneError] if nobody else is there.
//   - No lease is granted on a worker that is unready, draining, removed or
//     barred, nor on a barred pair.
//   - A change of the fleet that would leave a set with a fault changes nothing.
//
// # Units
//
// Load is counted in requests. A weight is a share of the load, 1 being that of
// a worker which is not being warmed.
//
// # Errors
//
// [Registry.Lease] returns [ErrUnknownModel], a [*NoneError], a [*ShedError] or
// its context's error. Changes of the fleet return [ErrExists], [ErrUnknownWorker], or what
// Config.Validate has to say. Everything else about a worker is told by its
// Status, not by an error.
//
// # Concurrency
//
// A Registry is safe for concurrent use. Leasing takes one short lock, does no
// I/O and, unless it waits, allocates nothing. The Judge and the observer of
// events are called outside the lock. Run has one goroutine per worker.
package workers
