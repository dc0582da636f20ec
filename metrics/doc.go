// Package metrics defines every metric that the daemon exports.
//
// The families that begin with smg_ have the names, labels, label values and
// buckets of smg (sglang-router), so that its users keep their dashboards; what
// smg forgets to count (streams to their end, server errors, a stream that
// breaks) is counted here. Those that begin with pdrouter_ are ours.
//
// Names, labels and buckets are part of the daemon's interface: a change to
// testdata/exposition.txt is a change that operators see.
//
// # Invariants
//
//   - Events are counted when they happen; state is read when it is scraped.
//   - What is not known is NaN: all series of a worker exist from the first
//     scrape, and go with it.
//   - Labels are closed sets or workers. A model is a label only if a worker
//     serves it, a path only as the template of a route.
//
// # Concurrency
//
// Everything here is safe for concurrent use. What is bound once (a [Route], a
// [Work]) costs no label look-up when it counts.
package metrics
